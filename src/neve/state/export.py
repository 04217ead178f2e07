"""Export of a whole state store as it is at one moment, and import into any kind of store.

SQLite and PostgreSQL are read in one transaction that sees one snapshot. Redis is read in one transaction too. Leases,
heartbeats and logins of browsers belong to processes, and are not exported.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, inspect, select

from neve.errors import LakeError
from neve.state.documents import load_document
from neve.state.keys import KEYS, add_missing_columns
from neve.state.sql_documents import DOCUMENTS, SqlDocuments

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from neve.state.documents import Documents
    from neve.state.redis_documents import RedisDocuments
    from neve.state.store import StateStore

OF_PROCESSES = ("leases", "parts", "browser-sessions")
TIME = "time:"

Entry = tuple[str, str, dict[str, object]]


@dataclass(frozen=True)
class StateExport:
    """Documents, each with its space and key, and API keys without their secrets."""

    documents: tuple[Entry, ...]
    keys: tuple[dict[str, Any], ...]


def export_state(state: StateStore, redis: RedisDocuments | None = None) -> StateExport:
    """Read everything at one moment. Keys are always in the SQL store, documents may be in Redis."""
    if not state.exists:
        return StateExport(_own(redis.export()) if redis else (), ())
    engine = state.engine
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with engine.begin() as connection:
        keys = _read_keys(connection)
        entries = redis.export() if redis else _read_documents(connection)
        return StateExport(_own(entries), keys)


def import_state(export: StateExport, state: StateStore, documents: Documents, *, force: bool) -> None:
    """Write an export. Raises `LakeError` if the store has documents or keys, unless it is forced to replace them."""
    redis = None if isinstance(documents, SqlDocuments) or not hasattr(documents, "export") else documents
    current = export_state(state, redis)  # type: ignore[arg-type] # the one store with `export` is Redis
    if (current.documents or current.keys) and not force:
        raise LakeError(
            f"the state store has {len(current.documents)} documents and {len(current.keys)} keys already",
            hint="pass --force to replace them",
        )
    for space, key, _value in current.documents:
        documents.delete(space, key)
    for space, key, value in export.documents:
        documents.put(space, key, value)
    add_missing_columns(state)
    with state.writing(KEYS) as connection:
        connection.execute(delete(KEYS))
        if export.keys:
            connection.execute(insert(KEYS), [dict(row) for row in export.keys])


def dump_export(export: StateExport) -> bytes:
    """Return an export as JSON."""
    rows = [{name: _to_json(value) for name, value in row.items()} for row in export.keys]
    return json.dumps({"documents": export.documents, "keys": rows}, separators=(",", ":")).encode()


def load_export(data: bytes) -> StateExport:
    """Return the export that `dump_export` wrote."""
    values = json.loads(data)
    documents = tuple((space, key, value) for space, key, value in values["documents"])
    names = set(KEYS.c.keys())
    keys = tuple({name: _from_json(row.get(name)) for name in names} for row in values["keys"])
    return StateExport(documents, keys)


def _own(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if entry[0] not in OF_PROCESSES)


def _read_documents(connection: Connection) -> tuple[Entry, ...]:
    if not inspect(connection).has_table(DOCUMENTS.name):
        return ()
    rows = connection.execute(select(DOCUMENTS).order_by(DOCUMENTS.c.space, DOCUMENTS.c.key))
    return tuple((row.space, row.key, load_document(row.value)) for row in rows)


def _read_keys(connection: Connection) -> tuple[dict[str, Any], ...]:
    found = inspect(connection)
    if not found.has_table(KEYS.name):
        return ()
    present = {column["name"] for column in found.get_columns(KEYS.name)}
    columns = [column for column in KEYS.c if column.name in present]  # earlier releases had fewer
    return tuple(dict(row._mapping) for row in connection.execute(select(*columns).order_by(KEYS.c.id)))


def _to_json(value: object) -> object:
    return TIME + value.isoformat() if isinstance(value, datetime) else value


def _from_json(value: object) -> object:
    return (
        datetime.fromisoformat(value.removeprefix(TIME)) if isinstance(value, str) and value.startswith(TIME) else value
    )
