"""What users set about the state store, and the address that comes of it."""

from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import Field, SecretStr
from sqlalchemy import URL

from neve.errors import ConfigError
from neve.lake.catalog import without_secrets
from neve.model.section import Section

SCHEMES = ("postgres", "postgresql")
LOGIN = ("user", "password")


class StateConfig(Section):
    """Where Neve keeps what is not telemetry: API keys."""

    url: str = Field(
        "", description="postgresql://host:port/database, for several machines; empty for the file that state.path says"
    )
    path: str = Field("lake/state.db", min_length=1, description="SQLite file of the state, where state.url is empty")
    user: str = Field("", description="user of a PostgreSQL state store")
    password: SecretStr = Field(SecretStr(""), description="password of a PostgreSQL state store")

    @property
    def file(self) -> Path | None:
        """The file of an embedded store; none where it is on a server."""
        return None if self.url else Path(self.path).expanduser().resolve()

    @property
    def shown(self) -> str:
        """The place in words that hold no secret."""
        return _shown(self.url) if self.url else f"sqlite {self.path}"


def address_of(config: StateConfig) -> URL:
    """The store's address for SQLAlchemy; raises `ConfigError` where `state.url` is none of ours."""
    if config.file is not None:
        return URL.create("sqlite", database=str(config.file))
    parts, port, options = _split(config.url)
    return URL.create(
        "postgresql+psycopg2",
        username=config.user or None,
        password=config.password.get_secret_value() or None,
        host=parts.hostname,
        port=port,
        database=unquote(parts.path.removeprefix("/")) or None,
        query=options,
    )


def _split(url: str) -> tuple[SplitResult, int | None, dict[str, str]]:
    try:
        parts = urlsplit(url)
        port, options = parts.port, dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:  # its words quote the address
        raise _refused(url) from None
    if parts.scheme not in SCHEMES or not parts.hostname or "@" in url or any(key in LOGIN for key in options):
        raise _refused(url)
    return parts, port, options


def _refused(url: str) -> ConfigError:
    return ConfigError(
        f"state.url is {_shown(url)!r}, expected postgresql://host:port/database",
        hint="user and password have keys of their own: state.user and state.password",
    )


def _shown(url: str) -> str:
    """An address without its secrets.

    Where there is an @, nobody can tell where a login ends: a password may hold every other mark of an address.
    """
    if "@" in url:
        return f"{url.partition(':')[0]}://…@…" if url.startswith(SCHEMES) else "…@…"
    try:
        return without_secrets(url)
    except ValueError:
        return "…"
