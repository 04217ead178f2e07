"""What users set about the receiver."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from neve.errors import ConfigError
from neve.model.network import Hosts, check_hosts, is_loopback
from neve.model.organization import PATTERN
from neve.model.section import Section
from neve.otlp.bounds import Bounds

MB = 1024 * 1024


class LimitConfig(Section):
    """How much an organization, or one key of it, may send."""

    organization: str = Field(
        "*", pattern=rf"^\*$|{PATTERN}", description="organization, or * for each that has no limit of its own"
    )
    key: str = Field(
        "",
        pattern=r"^$|^\*$|^[0-9a-f]{12}$",
        description="id of a key as `neve keys list` shows it, * for each key; empty for the organization as a whole",
    )
    bytes_per_second: int = Field(0, ge=0, description="bytes of unpacked messages a second; 0 for no limit")
    records_per_second: int = Field(0, ge=0, description="records a second; 0 for no limit")
    burst_seconds: float = Field(
        10.0, gt=0, le=3600, description="what may be sent at once after a pause, in seconds of the rate"
    )


class ReceiverConfig(Section):
    """How telemetry is received, and what a sender may ask of the receiver."""

    host: str = Field("127.0.0.1", min_length=1, description="address to listen on")
    http: bool = Field(True, description="whether to serve OTLP/HTTP")
    http_port: int = Field(4318, ge=0, le=65_535, description="port of OTLP/HTTP; 0 takes a free one")
    grpc: bool = Field(True, description="whether to serve OTLP/gRPC")
    grpc_port: int = Field(4317, ge=0, le=65_535, description="port of OTLP/gRPC; 0 takes a free one")
    auth: Literal["open", "keys"] = Field(
        "open", description="open takes everything for `organization`, on loopback only; keys asks for an API key"
    )
    allowed_hosts: Hosts = Field(
        (), description="host names that requests may name where `auth` is keys; empty: any. Loopback is always allowed"
    )
    max_message_bytes: int = Field(64 * MB, ge=1024, le=1024 * MB, description="largest message, unpacked")
    max_grpc_bytes: int = Field(
        16 * MB,
        ge=1024,
        le=1024 * MB,
        description="largest message over gRPC, as it was sent; so much is reserved while one is read",
    )
    max_records: int = Field(1_000_000, ge=1, le=100_000_000, description="most records in one message")
    max_groups: int = Field(
        100_000, ge=1, le=10_000_000, description="most resources, scopes and metrics in one message, together"
    )
    max_attributes: int = Field(
        4_000_000,
        ge=1,
        le=100_000_000,
        description="most attributes, nested values, events, links and exemplars in one message, together",
    )
    max_nesting: int = Field(64, ge=16, le=256, description="how deep brackets may be nested in a JSON message")
    max_inflight_bytes: int = Field(
        256 * MB, ge=MB, description="senders are told to come back while requests of this size are being worked on"
    )
    large_bytes: int = Field(
        MB,
        ge=16 * 1024,
        description="unpacked messages larger than this are checked in a process of their own; above 192 kB also "
        "those that may hold more than 65536 entries",
    )
    check_processes: int = Field(
        2, ge=0, le=64, description="how many processes check large messages; 0 checks them in the receiver itself"
    )
    check_memory_bytes: int = Field(
        1024 * MB, ge=64 * MB, description="how much memory the check of one large message may take"
    )
    check_seconds: float = Field(60.0, gt=0, le=3600, description="how long the check of one large message may take")
    max_connections: int = Field(
        512,
        ge=1,
        le=65_536,
        description="most connections at a time, over HTTP and over gRPC each, and most gRPC calls at a time",
    )
    limits: tuple[LimitConfig, ...] = Field(
        (), description="how much organizations and keys may send; the most exact entry counts, none is no limit"
    )
    backlog_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="part of raw.max_backlog_bytes that one organization may have waiting, where keys tell them apart",
    )
    max_header_bytes: int = Field(32 * 1024, ge=1024, le=MB, description="largest headers of a request")
    header_seconds: float = Field(10.0, gt=0, le=600, description="how long a client may take to send its headers")
    body_seconds: float = Field(60.0, gt=0, le=3600, description="how long a client may take to send a message")
    idle_seconds: int = Field(120, ge=1, le=3600, description="how long a connection may stay open without a request")
    drain_seconds: int = Field(
        10, ge=0, le=600, description="how long requests may take to finish when the receiver is told to stop"
    )
    retry_after_seconds: int = Field(
        1, ge=1, le=3600, description="what senders are told to wait when the receiver is under pressure"
    )
    key_seconds: float = Field(
        2.0, ge=0, le=3600, description="how long the answer about an API key is kept, and a revoked one still let in"
    )

    @field_validator("limits")
    @classmethod
    def _each_once(cls, limits: tuple[LimitConfig, ...]) -> tuple[LimitConfig, ...]:
        names = [(limit.organization, limit.key) for limit in limits]
        for organization, key in names:
            if names.count((organization, key)) > 1:
                raise ValueError(f"should have one entry for organization {organization!r} and key {key!r}")
        return limits

    @property
    def bounds(self) -> Bounds:
        """The most that one message may hold."""
        return Bounds(self.max_groups, self.max_records, self.max_attributes)


def check_receiver(config: ReceiverConfig) -> None:
    """Raise `ConfigError` where settings do not fit together; done at the start, when all of them are known."""
    if config.auth == "open" and not is_loopback(config.host):
        raise ConfigError(
            f"receiver.auth is 'open' and receiver.host is {config.host!r}, expected a loopback address or auth 'keys'",
            hint="set receiver.auth to keys, and make a key with `neve keys create`",
        )
    check_hosts("receiver", config.auth, config.allowed_hosts)
    if config.max_inflight_bytes < 2 * config.max_message_bytes:
        raise ConfigError(
            f"receiver.max_inflight_bytes is {config.max_inflight_bytes}, expected at least twice "
            f"receiver.max_message_bytes, which is {config.max_message_bytes}",
            hint="a packed message and what it unpacks to must fit together, or its sender comes back for ever",
        )
