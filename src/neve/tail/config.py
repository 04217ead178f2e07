"""Settings of tail sampling: the span source, when traces are complete, policies, and export destinations."""

from __future__ import annotations

import gzip
import re
from enum import StrEnum
from typing import Literal
from urllib.parse import urlsplit

import zstandard
from pydantic import Field, SecretStr, field_validator, model_validator

from neve.lake.config import CatalogConfig  # noqa: TC001 - pydantic reads the annotation
from neve.model.settings import ORGANIZATION_PATTERN, Section, as_text, check_http_address
from neve.tail.policy.semantics import Semantics


class Compression(StrEnum):
    """Compression of bodies and files.

    The values are those of HTTP's `Content-Encoding`.
    """

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"

    @property
    def ending(self) -> str:
        """File name suffix of the compression."""
        return {Compression.NONE: "", Compression.GZIP: ".gz", Compression.ZSTD: ".zst"}[self]

    @property
    def headers(self) -> dict[str, str]:
        """HTTP headers that declare the compression of a body."""
        return {} if self is Compression.NONE else {"content-encoding": self.value}

    def pack(self, data: bytes) -> bytes:
        """Compress bytes, deterministically."""
        if self is Compression.GZIP:
            return gzip.compress(data, compresslevel=6, mtime=0)
        return zstandard.compress(data) if self is Compression.ZSTD else data


SHARED_KEYS = ("name", "kind")
HEADER_NAME = re.compile(r"^[A-Za-z0-9_.-]+$")
RESERVED_HEADERS = ("content-type", "content-encoding", "content-length", "host", "x-datadog-trace-count")


class DestinationKind(StrEnum):
    """Protocol or format of a destination."""

    OTLP_HTTP = "otlp_http"
    OTLP_GRPC = "otlp_grpc"
    DATADOG = "datadog"
    OTLP_FILES = "otlp_files"
    ICEBERG = "iceberg"


_TLS_KEYS = ("ca_file", "client_certificate", "client_key")
_NETWORK_KEYS = ("endpoint", "headers", "compression", "timeout_seconds", "retry_seconds", "batch_spans", *_TLS_KEYS)
# The keys of each kind. NEEDED lists the required ones.
KEYS_BY_KIND: dict[DestinationKind, tuple[str, ...]] = {
    DestinationKind.OTLP_HTTP: _NETWORK_KEYS,
    DestinationKind.OTLP_GRPC: _NETWORK_KEYS,
    DestinationKind.DATADOG: _NETWORK_KEYS,
    DestinationKind.OTLP_FILES: ("folder", "format", "compression", "batch_spans"),
    DestinationKind.ICEBERG: ("table",),
}
REQUIRED_KEYS: dict[DestinationKind, tuple[str, ...]] = {
    DestinationKind.OTLP_HTTP: ("endpoint",),
    DestinationKind.OTLP_GRPC: ("endpoint",),
    DestinationKind.DATADOG: ("endpoint",),
    DestinationKind.OTLP_FILES: ("folder",),
    DestinationKind.ICEBERG: (),
}
# Datadog's own agent documents no compressed bodies. The collector's receiver for its format accepts them.
DEFAULT_COMPRESSION = {DestinationKind.DATADOG: Compression.NONE}


class DestinationConfig(Section):
    """Destination of kept traces. Its kind determines the other keys."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$",
        description="name of the destination; its position is stored under this name",
    )
    kind: DestinationKind = Field(description="protocol or format")
    endpoint: str = Field(
        "", description="http:// or https:// address: OTLP endpoint without /v1/traces, gRPC server, or Datadog agent"
    )
    folder: str = Field("", description="otlp_files: folder or s3:// prefix for the files")
    table: str = Field(
        "sampled_spans", min_length=1, description="iceberg: table of the lake, or namespace.table of its catalog"
    )
    format: Literal["proto", "json"] = Field(
        "proto", description="otlp_files: protobuf, or JSON with one message per line"
    )
    headers: dict[str, SecretStr] = Field({}, description="additional headers, or gRPC metadata; values are secrets")
    compression: Literal["auto", "gzip", "zstd", "none"] = Field(
        "auto", description="compression of requests and files; auto: gzip, and none for datadog"
    )
    timeout_seconds: float = Field(10, gt=0, le=600, description="timeout of one request in seconds")
    retry_seconds: float = Field(
        60, ge=0, le=3600, description="seconds to retry a request before the destination counts as unavailable"
    )
    batch_spans: int = Field(
        5000, ge=1, le=1_000_000, description="maximum number of spans per request or OTLP message"
    )
    ca_file: str = Field("", description="PEM file with trusted certificates; empty: the system's")
    client_certificate: str = Field("", description="PEM file of the certificate to present; empty: none")
    client_key: str = Field("", description="PEM file of the private key of `client_certificate`")

    _plain_headers = field_validator("headers", mode="before")(as_text)

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, value: str) -> str:
        expected = "should be http://host:port or https://host:port, optionally with a path"
        return check_http_address(value, expected) if value else value

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
            if not HEADER_NAME.match(name):
                raise ValueError(f"should have names of letters, digits, '-', '_' and '.', got {name!r}")
            if name.lower() in RESERVED_HEADERS or name.lower().startswith("grpc-"):
                raise ValueError(f"should not set {name}, which Neve sets itself")
            if not secret.get_secret_value().isprintable() or not secret.get_secret_value().isascii():
                raise ValueError(f"should have values of printable ASCII; that of {name} is not")
        return value

    @model_validator(mode="after")
    def _check_keys(self) -> DestinationConfig:
        own = KEYS_BY_KIND[self.kind]
        alien = [key for key in type(self).model_fields if key in self.model_fields_set - {*SHARED_KEYS, *own}]
        if alien:
            raise ValueError(
                f"should not have {', '.join(alien)}: the kind {self.kind} has only {', '.join((*SHARED_KEYS, *own))}"
            )
        missing = [key for key in REQUIRED_KEYS[self.kind] if not getattr(self, key)]
        if missing:
            raise ValueError(f"should have {', '.join(missing)}, which the kind {self.kind} needs")
        if self.kind is DestinationKind.OTLP_GRPC:
            self._check_grpc()
        return self

    def _check_grpc(self) -> None:
        if self.compression == "zstd":
            raise ValueError("should have the compression gzip or none: gRPC has no zstd")
        if urlsplit(self.endpoint).path.strip("/"):
            raise ValueError("should have an endpoint without a path: gRPC has its own")

    @property
    def packing(self) -> Compression:
        """Compression of bodies and files."""
        if self.compression == "auto":
            return DEFAULT_COMPRESSION.get(self.kind, Compression.GZIP)
        return Compression(self.compression)

    @property
    def plain_headers(self) -> dict[str, str]:
        """Headers with their secret values, for sending."""
        return {name: value.get_secret_value() for name, value in self.headers.items()}


class ExportConfig(Section):
    """Destinations of kept traces."""

    destinations: tuple[DestinationConfig, ...] = Field(
        (), description="destinations of sampled traces; each has its own position"
    )

    @field_validator("destinations")
    @classmethod
    def _distinct_names(cls, value: tuple[DestinationConfig, ...]) -> tuple[DestinationConfig, ...]:
        names = [destination.name for destination in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"should have distinct names, got {', '.join(twice)} more than once")
        return value


Unit = Literal["s", "ms", "us", "ns"]
MB = 1024 * 1024


class SourceConfig(Section):
    """Table of spans, and its column names."""

    table: str = Field("spans", min_length=1, description="table with spans: a table of the lake, or namespace.table")
    catalog: CatalogConfig | None = Field(
        None, description="catalog of the table; empty: the lake's own. The table is only read"
    )
    columns: dict[str, str] = Field(
        {},
        description="column names in the table, by their role, if they differ from the usual names; empty text: "
        "no such column",
    )
    units: dict[str, Unit] = Field(
        {}, description="units of integer times (start, end, duration, arrived): s, ms, us or ns"
    )
    organization: str = Field(
        "",
        pattern=f"({ORGANIZATION_PATTERN})?",
        description="read only this organization; for a table without organizations: the organization of its spans",
    )


class TailConfig(Section):
    """Completeness of traces, policies, and destinations."""

    name: str = Field("tail", pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="name of the selector")
    storage: Literal["iceberg", "memory"] = Field(
        "iceberg", description="iceberg: read spans from a table; memory: directly from the receiver or Kafka"
    )
    policies: str = Field(
        "", description="file with the collector's tail_sampling policies; empty: errors, slow traces and a percentage"
    )
    semantics: Semantics = Field(
        Semantics.DOCUMENTED,
        description="documented: as the collector's documentation; otelcol: as its code, where they differ",
    )
    slow_ms: int = Field(5000, ge=1, description="without a policy file: slower traces are sampled")
    percentage: float = Field(
        1.0, ge=0, le=100, description="without a policy file: percentage of all other traces to sample"
    )
    start: Literal["all", "new"] = Field(
        "all", description="spans that the first cycle reads: all existing ones, or only later ones"
    )
    clock: Literal["arrival", "event"] = Field(
        "arrival", description="clock for timeouts: arrival time, or end time of spans"
    )
    inactivity_seconds: float = Field(
        300, gt=0, description="seconds without a new span after which a trace is complete"
    )
    max_duration_seconds: float = Field(3600, gt=0, description="seconds after which a trace is decided in any case")
    after_root_seconds: float | None = Field(
        None,
        ge=0,
        description="seconds after its root span at which a trace is complete; empty: the root has no effect",
    )
    window_seconds: int = Field(60, ge=1, le=3600, description="seconds of the window over which limits apply")
    late_seconds: float = Field(7200, gt=0, description="seconds after a decision during which spans count as late")
    trace_ttl_seconds: float = Field(7200, gt=0, description="seconds to keep sampled trace ids in Redis")
    claims: str = Field("", description="redis:// URL to coordinate several selectors; empty: a single selector")
    engine: Literal["auto", "duckdb", "spark"] = Field(
        "auto", description="engine that reads spans: duckdb, spark, or auto"
    )
    spark_bytes: int = Field(20_000 * MB, ge=0, description="auto: larger inputs are read by Spark")
    memory_mb: int = Field(96, ge=64, description="DuckDB memory; larger inputs spill to disk")
    threads: int = Field(0, ge=0, description="DuckDB threads; 0: one per core")
    chunk_rows: int = Field(250_000, ge=1000, description="spans to aggregate at a time")
    feeds: tuple[Literal["receiver", "kafka"], ...] = Field(
        ("receiver",), min_length=1, description="storage memory: source of spans: receiver, kafka or both"
    )
    buffer_mb: int = Field(
        256,
        ge=1,
        description="storage memory: maximum number of spans to hold; beyond it the oldest traces are decided early",
    )
    interval_seconds: float = Field(30, gt=0, description="seconds between cycles")
    lease_seconds: float = Field(
        60, gt=0, description="seconds until the lease of a selector expires if it is not renewed"
    )
    price_per_million_spans: float = Field(0, ge=0, description="prices of a destination, for simulations")
    source: SourceConfig = Field(SourceConfig(), description="source of spans")
    export: ExportConfig = Field(ExportConfig(), description="destinations of sampled traces")

    @model_validator(mode="after")
    def _check_trace_ttl(self) -> TailConfig:
        if self.trace_ttl_seconds <= self.max_duration_seconds:
            raise ValueError(
                f"trace_ttl_seconds is {self.trace_ttl_seconds:g}, expected more than max_duration_seconds "
                f"({self.max_duration_seconds:g}): otherwise the claim on a trace could expire before its decision"
            )
        return self
