"""What users set about the destinations of kept traces."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from neve.lake.config import as_text
from neve.model.network import http_address
from neve.model.section import Section
from neve.tail.export.packing import Packing

SHARED = ("name", "kind")
TOKEN = re.compile(r"^[A-Za-z0-9_.-]+$")
OWN_HEADERS = ("content-type", "content-encoding", "content-length", "host", "x-datadog-trace-count")


class Kind(StrEnum):
    """What a destination speaks."""

    OTLP_HTTP = "otlp_http"
    OTLP_GRPC = "otlp_grpc"
    DATADOG = "datadog"
    OTLP_FILES = "otlp_files"
    ICEBERG = "iceberg"


_NETWORK = ("endpoint", "headers", "compression", "timeout_seconds", "retry_seconds", "batch_spans", "ca_file")
# The keys that a kind has; those that must be given stand in NEEDED.
KEYS: dict[Kind, tuple[str, ...]] = {
    Kind.OTLP_HTTP: _NETWORK,
    Kind.OTLP_GRPC: _NETWORK,
    Kind.DATADOG: _NETWORK,
    Kind.OTLP_FILES: ("folder", "format", "compression", "batch_spans"),
    Kind.ICEBERG: ("table",),
}
NEEDED: dict[Kind, tuple[str, ...]] = {
    Kind.OTLP_HTTP: ("endpoint",),
    Kind.OTLP_GRPC: ("endpoint",),
    Kind.DATADOG: ("endpoint",),
    Kind.OTLP_FILES: ("folder",),
    Kind.ICEBERG: (),
}
# Datadog's own agent documents no packed bodies; the collector's receiver for its format takes them.
DEFAULT_PACKING = {Kind.DATADOG: Packing.NONE}


class DestinationConfig(Section):
    """A place that kept traces are sent to; `kind` says what it speaks, and so which of the other keys it has."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="what it is called; how far it is, is kept under this name"
    )
    kind: Kind = Field(description="what it speaks")
    endpoint: str = Field(
        "", description="http:// or https:// address: of OTLP before /v1/traces, of a gRPC server, of a Datadog agent"
    )
    folder: str = Field("", description="otlp_files: folder or s3:// prefix that the files are written to")
    table: str = Field(
        "sampled_spans", min_length=1, description="iceberg: table of the lake, or namespace.table of its catalog"
    )
    format: Literal["proto", "json"] = Field("proto", description="otlp_files: protobuf, or JSON with a message a line")
    headers: dict[str, SecretStr] = Field({}, description="further headers, or metadata in gRPC; values are secrets")
    compression: Literal["auto", "gzip", "zstd", "none"] = Field(
        "auto", description="how bodies and files are packed; auto is gzip, and none for datadog"
    )
    timeout_seconds: float = Field(10, gt=0, le=600, description="how long one request may take")
    retry_seconds: float = Field(
        60, ge=0, le=3600, description="how long a request is tried again before the destination counts as away"
    )
    batch_spans: int = Field(5000, ge=1, le=1_000_000, description="most spans in one request or OTLP message")
    ca_file: str = Field("", description="PEM file of the certificates that are trusted; empty for the system's")

    _plain_headers = field_validator("headers", mode="before")(as_text)

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, value: str) -> str:
        expected = "should be http://host:port or https://host:port, with a path where one is needed"
        return http_address(value, expected) if value else value

    @field_validator("folder")
    @classmethod
    def _is_place(cls, value: str) -> str:
        scheme, separator, _rest = value.partition("://")
        if separator and scheme not in ("file", "s3"):
            raise ValueError("should be a folder or an s3:// prefix")
        return value

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, secret in value.items():
            if not TOKEN.match(name):
                raise ValueError(f"should have names of letters, digits, '-', '_' and '.', got {name!r}")
            if name.lower() in OWN_HEADERS or name.lower().startswith("grpc-"):
                raise ValueError(f"should not set {name}, which Neve sets itself")
            if not secret.get_secret_value().isprintable() or not secret.get_secret_value().isascii():
                raise ValueError(f"should have values of printable ASCII; that of {name} is not")
        return value

    @model_validator(mode="after")
    def _keys_fit(self) -> DestinationConfig:
        own = KEYS[self.kind]
        alien = [key for key in type(self).model_fields if key in self.model_fields_set - {*SHARED, *own}]
        if alien:
            raise ValueError(
                f"should not have {', '.join(alien)}: the kind {self.kind} has only {', '.join((*SHARED, *own))}"
            )
        missing = [key for key in NEEDED[self.kind] if not getattr(self, key)]
        if missing:
            raise ValueError(f"should have {', '.join(missing)}, which the kind {self.kind} needs")
        if self.kind is Kind.OTLP_GRPC:
            self._check_grpc()
        return self

    def _check_grpc(self) -> None:
        if self.compression == "zstd":
            raise ValueError("should have the compression gzip or none: gRPC has no zstd")
        if urlsplit(self.endpoint).path.strip("/"):
            raise ValueError("should have an endpoint without a path: gRPC has its own")

    @property
    def packing(self) -> Packing:
        """How bodies and files are packed."""
        if self.compression == "auto":
            return DEFAULT_PACKING.get(self.kind, Packing.GZIP)
        return Packing(self.compression)

    @property
    def plain_headers(self) -> dict[str, str]:
        """The headers with their values, for the one who sends them."""
        return {name: value.get_secret_value() for name, value in self.headers.items()}


class ExportConfig(Section):
    """Where kept traces go."""

    destinations: tuple[DestinationConfig, ...] = Field(
        (), description="places that kept traces are sent to, each by itself"
    )

    @field_validator("destinations")
    @classmethod
    def _distinct_names(cls, value: tuple[DestinationConfig, ...]) -> tuple[DestinationConfig, ...]:
        names = [destination.name for destination in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"should have each name once, got {', '.join(twice)} more often")
        return value
