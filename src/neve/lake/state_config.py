"""What users set about the state store, and the address that comes of it."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import Field, SecretStr
from sqlalchemy import URL

from neve.errors import ConfigError
from neve.lake.catalog import without_secrets
from neve.model.section import Section

SCHEMES = ("postgres", "postgresql")
LOGIN = ("user", "password")
REDIS_SCHEMES = ("redis", "rediss")
REDIS_PORT = 6379
REDIS_PATH = re.compile(r"/?([0-9]*)")
AUTHORITY = "ssl_ca_certs"


class StateConfig(Section):
    """Where Neve keeps what is not telemetry: API keys, and the documents that its processes share."""

    url: str = Field(
        "", description="postgresql://host:port/database, for several machines; empty for the file that state.path says"
    )
    path: str = Field("lake/state.db", min_length=1, description="SQLite file of the state, where state.url is empty")
    user: str = Field("", description="user of a PostgreSQL state store")
    password: SecretStr = Field(SecretStr(""), description="password of a PostgreSQL state store")
    documents: str = Field(
        "",
        description="redis://host:port/database, or rediss:// for TLS, to keep leases, plans and histories in Redis; "
        "empty for the store of the API keys",
    )
    documents_password: SecretStr = Field(SecretStr(""), description="password of a Redis that keeps documents")

    @property
    def file(self) -> Path | None:
        """The file of an embedded store; none where it is on a server."""
        return None if self.url else Path(self.path).expanduser().resolve()

    @property
    def shown(self) -> str:
        """The place in words that hold no secret."""
        return shown(self.url) if self.url else f"sqlite {self.path}"


@dataclass(frozen=True)
class RedisAddress:
    """Where a Redis answers; `authority` is a file of certificates that vouch for it."""

    host: str
    port: int
    database: int
    secure: bool
    authority: str | None = None


def address_of(config: StateConfig) -> URL:
    """The store's address for SQLAlchemy; raises `ConfigError` where `state.url` is none of ours."""
    if config.file is not None:
        return URL.create("sqlite", database=str(config.file))
    try:
        parts, port, options = _split(config.url, SCHEMES)
    except ValueError:  # its words quote the address
        raise _refused(config.url) from None
    return URL.create(
        "postgresql+psycopg2",
        username=config.user or None,
        password=config.password.get_secret_value() or None,
        host=parts.hostname,
        port=port,
        database=unquote(parts.path.removeprefix("/")) or None,
        query=options,
    )


def redis_address_of(url: str) -> RedisAddress:
    """The parts of `state.documents`; raises `ConfigError` where it is no address of a Redis."""
    try:
        parts, port, options = _split(url, REDIS_SCHEMES)
    except ValueError:  # its words quote the address
        raise _refused_redis(url) from None
    secure, database = parts.scheme == "rediss", REDIS_PATH.fullmatch(parts.path)
    if parts.fragment or database is None or not options.keys() <= ({AUTHORITY} if secure else set()):
        raise _refused_redis(url)
    return RedisAddress(str(parts.hostname), port or REDIS_PORT, int(database[1] or 0), secure, options.get(AUTHORITY))


def _split(url: str, schemes: tuple[str, ...]) -> tuple[SplitResult, int | None, dict[str, str]]:
    """An address in parts; raises `ValueError` where it is none, or has a login in it."""
    parts = urlsplit(url)
    port, options = parts.port, dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    if parts.scheme not in schemes or not parts.hostname or "@" in url or any(key in LOGIN for key in options):
        raise ValueError(url)
    return parts, port, options


def _refused(url: str) -> ConfigError:
    return ConfigError(
        f"state.url is {shown(url)!r}, expected postgresql://host:port/database",
        hint="user and password have keys of their own: state.user and state.password",
    )


def _refused_redis(url: str) -> ConfigError:
    return ConfigError(
        f"state.documents is {shown(url)!r}, expected redis://host:port/database, or rediss:// and no option but "
        f"{AUTHORITY}",
        hint="a password has a key of its own: state.documents_password",
    )


def shown(url: str) -> str:
    """An address without its secrets.

    Where there is an @, nobody can tell where a login ends: a password may hold every other mark of an address.
    """
    if "@" in url:
        scheme = url.partition("://")[0]
        return f"{scheme}://…@…" if scheme in (*SCHEMES, *REDIS_SCHEMES) else "…@…"
    try:
        return without_secrets(url)
    except ValueError:
        return "…"
