"""Settings of the state store and of the bus, and the parsed addresses of their servers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import Field, SecretStr, field_validator

from neve.errors import ConfigError
from neve.model.settings import Section, as_text, redact_uri

if TYPE_CHECKING:
    from sqlalchemy import URL

SCHEMES = ("postgres", "postgresql")
LOGIN = ("user", "password")
REDIS_SCHEMES = ("redis", "rediss")
REDIS_PORT = 6379
REDIS_PATH = re.compile(r"/?([0-9]*)")
CA_OPTION = "ssl_ca_certs"


class StateConfig(Section):
    """State store: API keys, and the documents that Neve's processes share."""

    url: str = Field(
        "", description="postgresql://host:port/database, for several machines; empty: the file in state.path"
    )
    path: str = Field(
        "lake/state.db", min_length=1, description="SQLite file of the state store, if state.url is empty"
    )
    user: str = Field("", description="user of a PostgreSQL state store")
    password: SecretStr = Field(SecretStr(""), description="password of a PostgreSQL state store")
    documents: str = Field(
        "",
        description="redis://host:port/database, or rediss:// for TLS, to keep leases, plans and histories in "
        "Redis; empty: the same store as the API keys",
    )
    documents_password: SecretStr = Field(SecretStr(""), description="password of the Redis server")

    @property
    def file(self) -> Path | None:
        """The file of an embedded store; None if the store is on a server."""
        return None if self.url else Path(self.path).expanduser().resolve()

    @property
    def display_address(self) -> str:
        """The address for display, without secrets."""
        return redact_state_url(self.url) if self.url else f"sqlite {self.path}"


@dataclass(frozen=True)
class RedisAddress:
    """Address of a Redis server; `authority` is a file of CA certificates that verify it."""

    host: str
    port: int
    database: int
    secure: bool
    authority: str | None = None


def parse_state_url(config: StateConfig) -> URL:
    """Return the store's address for SQLAlchemy. Raises `ConfigError` if `state.url` is not supported."""
    from sqlalchemy import URL  # noqa: PLC0415 - every command reads these settings, and few need SQLAlchemy

    if config.file is not None:
        return URL.create("sqlite", database=str(config.file))
    try:
        parts, port, options = _split_url(config.url, SCHEMES)
    except ValueError:  # its message quotes the address
        raise _state_url_error(config.url) from None
    return URL.create(
        "postgresql+psycopg2",
        username=config.user or None,
        password=config.password.get_secret_value() or None,
        host=parts.hostname,
        port=port,
        database=unquote(parts.path.removeprefix("/")) or None,
        query=options,
    )


def parse_redis_url(url: str) -> RedisAddress:
    """Parse `state.documents`. Raises `ConfigError` if it is not a Redis address."""
    try:
        parts, port, options = _split_url(url, REDIS_SCHEMES)
    except ValueError:  # its message quotes the address
        raise _redis_url_error(url) from None
    secure, database = parts.scheme == "rediss", REDIS_PATH.fullmatch(parts.path)
    if parts.fragment or database is None or not options.keys() <= ({CA_OPTION} if secure else set()):
        raise _redis_url_error(url)
    return RedisAddress(str(parts.hostname), port or REDIS_PORT, int(database[1] or 0), secure, options.get(CA_OPTION))


def _split_url(url: str, schemes: tuple[str, ...]) -> tuple[SplitResult, int | None, dict[str, str]]:
    """Split an address into parts. Raises `ValueError` if it is not valid or contains a login."""
    parts = urlsplit(url)
    port, options = parts.port, dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    if parts.scheme not in schemes or not parts.hostname or "@" in url or any(key in LOGIN for key in options):
        raise ValueError(url)
    return parts, port, options


def _state_url_error(url: str) -> ConfigError:
    return ConfigError(
        f"state.url is {redact_state_url(url)!r}, expected postgresql://host:port/database",
        hint="set user and password by state.user and state.password",
    )


def _redis_url_error(url: str) -> ConfigError:
    return ConfigError(
        f"state.documents is {redact_state_url(url)!r}, expected redis://host:port/database, "
        f"or rediss:// and no option but {CA_OPTION}",
        hint="set the password by state.documents_password",
    )


def redact_state_url(url: str) -> str:
    """Return an address without its secrets.

    If there is an @, the end of the login is unknown: a password may contain every other delimiter of an address.
    """
    if "@" in url:
        scheme = url.partition("://")[0]
        return f"{scheme}://…@…" if scheme in (*SCHEMES, *REDIS_SCHEMES) else "…@…"
    try:
        return redact_uri(url)
    except ValueError:
        return "…"


DAY_SECONDS = 24 * 60 * 60
MIN_KAFKA_HOLD_SECONDS = 6.0  # seconds: the minimum that brokers accept by default
# Other values of these options would lose or reorder messages.
RESERVED_KAFKA_OPTIONS = (
    "acks",
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "group.id",
    "partition.assignment.strategy",
    "partitioner",
)


class BusConfig(Section):
    """Bus that announces commits to the scheduler of `neve serve`."""

    kind: Literal["none", "kafka", "sql"] = Field(
        "none",
        description="none (announcements in the state store) or kafka; sql, of earlier releases, is ignored with a "
        "warning",
    )
    bootstrap_servers: str = Field("", description="brokers as host:port, separated by commas, if bus.kind is kafka")
    prefix: str = Field(
        "neve.", pattern=r"^[A-Za-z0-9._-]{0,100}$", description="prefix of Kafka topic and group names"
    )
    keep_seconds: float = Field(
        DAY_SECONDS,
        gt=0,
        description="seconds to keep messages of Kafka topics that Neve creates",
    )
    hold_seconds: float = Field(30, gt=0, description="seconds until another reader takes over from a silent one")
    partitions: int = Field(1, ge=1, description="partitions of Kafka topics that Neve creates")
    options: dict[str, str] = Field(
        {}, repr=False, description="additional librdkafka settings, such as security.protocol"
    )

    _plain_options = field_validator("options", mode="before")(as_text)


def check_bus_config(config: BusConfig) -> None:
    """Raise `ConfigError` for settings that contradict each other."""
    if config.kind != "kafka":
        return
    if not config.bootstrap_servers.strip():
        raise ConfigError(
            "bus.bootstrap_servers is empty, expected brokers as host:port with commas",
            hint="bus.kind is kafka; none needs no broker",
        )
    if config.hold_seconds < MIN_KAFKA_HOLD_SECONDS:
        raise ConfigError(
            f"bus.hold_seconds is {config.hold_seconds:g}, expected {MIN_KAFKA_HOLD_SECONDS:g} or more",
            hint="bus.kind is kafka, whose brokers refuse shorter times",
        )
    own = sorted(set(config.options) & set(RESERVED_KAFKA_OPTIONS))
    if own:  # their values may be secret, their names are not
        raise ConfigError(f"bus.options has {', '.join(own)}, expected none that Neve sets itself")
