"""The table of API keys in the state store, and what brings an older one up to this release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Column, MetaData, Table, Text, inspect, text

from neve.lake.state import Moment

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from neve.lake.state import State

KEYS = Table(
    "api_keys",
    MetaData(),
    Column("id", Text, primary_key=True),
    Column("secret_sha256", Text, nullable=False),
    Column("organization_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("revoked_at", Moment),
    Column("last_used_at", Moment),
    Column("scopes", Text),  # null: made before there were scopes, or by a release that knows none
)
SCOPES = KEYS.c.scopes.name


def add_scopes(state: State) -> None:
    """Give a table of an older release the column that it lacks; others that do the same do no harm."""
    with state.reading(KEYS) as connection:
        if _has_scopes(connection):
            return
    with state.writing(KEYS) as connection:
        # SQLite has one writer at a time, so that another look tells; PostgreSQL's own words do the same.
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"ALTER TABLE {KEYS.name} ADD COLUMN IF NOT EXISTS {SCOPES} TEXT"))
        elif not _has_scopes(connection):
            connection.execute(text(f"ALTER TABLE {KEYS.name} ADD COLUMN {SCOPES} TEXT"))


def _has_scopes(connection: Connection) -> bool:
    return any(column["name"] == SCOPES for column in inspect(connection).get_columns(KEYS.name))
