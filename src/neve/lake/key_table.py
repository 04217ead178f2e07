"""The table of API keys in the state store, and what brings an older one up to this release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    Column("expires_at", Moment),  # null: never
)
LATER = (KEYS.c.scopes, KEYS.c.expires_at)  # columns that tables of older releases lack


def add_columns(state: State) -> None:
    """Give a table of an older release the columns that it lacks; others that do the same do no harm."""
    with state.reading(KEYS) as connection:
        if not _missing(connection):
            return
    with state.writing(KEYS) as connection:
        # SQLite has one writer at a time, so that another look tells; PostgreSQL's own words do the same.
        clause = "IF NOT EXISTS " if connection.dialect.name == "postgresql" else ""
        for column in _missing(connection):
            kind = column.type.compile(connection.dialect)
            connection.execute(text(f"ALTER TABLE {KEYS.name} ADD COLUMN {clause}{column.name} {kind}"))


def _missing(connection: Connection) -> list[Column[Any]]:
    there = {column["name"] for column in inspect(connection).get_columns(KEYS.name)}
    return [column for column in LATER if column.name not in there]
