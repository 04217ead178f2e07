"""Settings of the receiver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from neve.errors import ConfigError
from neve.model.settings import ORGANIZATION_PATTERN, Hosts, Section, check_hosts, check_open_host
from neve.tls.config import TlsConfig

if TYPE_CHECKING:
    from neve.otlp.bounds import Bounds

MB = 1024 * 1024


class LimitConfig(Section):
    """Rate limit of an organization or of one of its keys."""

    organization: str = Field(
        "*",
        pattern=rf"^\*$|{ORGANIZATION_PATTERN}",
        description="organization, or * for all without a limit of their own",
    )
    key: str = Field(
        "",
        pattern=r"^$|^\*$|^[0-9a-f]{12}$|^subject:.{1,255}$",
        description="key id as in `neve keys list`, `subject:` and the subject of a token, or * for each key and "
        "subject; empty: the organization as a whole",
    )
    bytes_per_second: int = Field(0, ge=0, description="decompressed bytes per second; 0: unlimited")
    records_per_second: int = Field(0, ge=0, description="records per second; 0: unlimited")
    burst_seconds: float = Field(10.0, gt=0, le=3600, description="burst, in seconds of the rate")


class ReceiverConfig(Section):
    """OTLP receiver and its limits."""

    host: str = Field("127.0.0.1", min_length=1, description="listen address")
    http: bool = Field(True, description="serve OTLP/HTTP")
    http_port: int = Field(4318, ge=0, le=65_535, description="port of OTLP/HTTP; 0: any free port")
    grpc: bool = Field(True, description="serve OTLP/gRPC")
    grpc_port: int = Field(4317, ge=0, le=65_535, description="port of OTLP/gRPC; 0: any free port")
    auth: Literal["open", "keys"] = Field(
        "open",
        description="open: no authentication, for `organization`, on loopback or with client certificates only; keys: "
        "API keys are required",
    )
    tls: TlsConfig = Field(TlsConfig(), description="TLS of OTLP/HTTP and OTLP/gRPC")
    allowed_hosts: Hosts = Field(
        (), description="host names that requests may use if `auth` is keys; empty: any. Loopback is always allowed"
    )
    max_message_bytes: int = Field(64 * MB, ge=1024, le=1024 * MB, description="maximum decompressed size of a message")
    max_grpc_bytes: int = Field(
        16 * MB,
        ge=1024,
        le=1024 * MB,
        description="maximum size of a gRPC message as sent; this much memory is reserved while one is read",
    )
    max_records: int = Field(1_000_000, ge=1, le=100_000_000, description="maximum number of records in one message")
    max_groups: int = Field(
        100_000, ge=1, le=10_000_000, description="maximum number of resources, scopes and metrics in one message"
    )
    max_attributes: int = Field(
        4_000_000,
        ge=1,
        le=100_000_000,
        description="maximum number of attributes, nested values, events, links and exemplars in one message",
    )
    max_nesting: int = Field(
        144,
        ge=16,
        le=256,
        description="maximum nesting depth of brackets in a JSON message; a map in an attribute takes four",
    )
    max_inflight_bytes: int = Field(
        256 * MB,
        ge=MB,
        description="bytes of requests in progress above which new requests are rejected with a retry hint",
    )
    large_bytes: int = Field(
        MB,
        ge=16 * 1024,
        description="larger decompressed messages are checked in a separate process, and smaller ones that may contain "
        "more than 24576 groups, records and points, or that have malformed records",
    )
    check_processes: int = Field(
        2, ge=0, le=64, description="processes that check large messages; 0: they are checked in the receiver itself"
    )
    check_memory_bytes: int = Field(
        1024 * MB, ge=64 * MB, description="memory limit for the check of one large message"
    )
    check_seconds: float = Field(
        60.0, gt=0, le=3600, description="time limit for the check of one large message, in seconds"
    )
    max_connections: int = Field(
        512,
        ge=1,
        le=65_536,
        description="maximum number of connections, for HTTP and for gRPC each, and of concurrent gRPC calls",
    )
    limits: tuple[LimitConfig, ...] = Field(
        (),
        description="rate limits of organizations and keys; the most specific entry applies, without one the "
        "rate is unlimited",
    )
    backlog_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="share of raw.max_backlog_bytes that one organization may use, if `auth` is keys",
    )
    max_header_bytes: int = Field(32 * 1024, ge=1024, le=MB, description="maximum size of request headers")
    header_seconds: float = Field(10.0, gt=0, le=600, description="seconds for a client to send its headers")
    body_seconds: float = Field(60.0, gt=0, le=3600, description="seconds for a client to send a message")
    idle_seconds: int = Field(120, ge=1, le=3600, description="seconds until an idle connection is closed")
    drain_seconds: int = Field(10, ge=0, le=600, description="seconds for running requests to finish at shutdown")
    retry_after_seconds: int = Field(
        1, ge=1, le=3600, description="Retry-After in seconds while the receiver is overloaded"
    )
    key_seconds: float = Field(
        2.0,
        ge=0,
        le=3600,
        description="seconds to cache the result of a key check; a revoked key is accepted for this long",
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
        """The limits of one message."""
        from neve.otlp.bounds import Bounds  # noqa: PLC0415 - Arrow, for those who read messages

        return Bounds(self.max_groups, self.max_records, self.max_attributes)


def check_receiver(config: ReceiverConfig) -> None:
    """Raise `ConfigError` if settings conflict. It runs at the start, when all settings are known."""
    if config.auth == "open" and not config.tls.verifies_clients:
        check_open_host("receiver", config.host, "create a key with `neve keys create`")
    check_hosts("receiver", config.auth, config.allowed_hosts)
    if config.grpc and config.tls.is_on and config.tls.min_version != "1.2":
        raise ConfigError(
            f"receiver.tls.min_version is {config.tls.min_version} and receiver.grpc is true, expected 1.2 or no gRPC",
            hint="gRPC accepts TLS 1.2 and 1.3, and can't be limited to one of them",
        )
    if config.max_inflight_bytes < 2 * config.max_message_bytes:
        raise ConfigError(
            f"receiver.max_inflight_bytes is {config.max_inflight_bytes}, expected at least twice "
            f"receiver.max_message_bytes, which is {config.max_message_bytes}",
            hint="a compressed message must fit together with its decompressed bytes, or its client retries forever",
        )
