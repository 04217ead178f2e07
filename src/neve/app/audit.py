"""The audit log of a lake: commit waiting entries to the table `audit`, and read both together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from neve.errors import ConfigError, LakeError, TableMissing
from neve.lake.commit.append import append_once
from neve.lake.duckdb import connect, quote_literal, scan_sql
from neve.lake.write.table_writer import Target, write_files
from neve.logger import get_logger
from neve.model.audit import AUDIT
from neve.state.audit import AuditEntry, AuditLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from neve.lake.lake import Lake
    from neve.state.documents import Documents

OPERATION = "audit"
BATCH, CURRENT = "audit-batch", "current"  # document of the batch that is being committed
MAX_BATCH = 1000  # entries of one commit

log = get_logger("neve.audit")


def commit_entries(lake: Lake, documents: Documents) -> int:
    """Commit the waiting entries to the table, each once, and return their number.

    The batch is stored before its commit. A process that finds the batch of a killed one commits it under the same id,
    which the table recognizes.
    """
    committed = 0
    while entries := _claim_batch(documents):
        batch, rows = entries
        table = lake.table(AUDIT.name)
        files = write_files(Target.of(table), to_rows(entry for _space, entry in rows)) if rows else []
        if files:
            append_once(table, files, batch_id=str(batch["id"]), operation=OPERATION, remember_batch=True)
        for space, entry in rows:
            documents.delete(space, entry.id)
        documents.swap(BATCH, CURRENT, batch, None)  # another process may have finished it, and begun the next
        committed += len(rows)
    return committed


def _claim_batch(documents: Documents) -> tuple[dict[str, object], list[tuple[str, AuditEntry]]] | None:
    """Return the stored batch with its entries, or a new one; None if no entry waits."""
    waiting = dict(_first(AuditLog(documents)))
    batch = documents.get(BATCH, CURRENT)
    if batch is None:
        if not waiting:
            return None
        batch = {"id": uuid4().hex, "entries": sorted(waiting)}
        if not documents.swap(BATCH, CURRENT, None, batch):
            return None  # another process commits
    names = {str(name) for name in batch["entries"]} if isinstance(batch["entries"], list) else set()
    return batch, [pair for name, pair in waiting.items() if name in names]


def _first(audit: AuditLog) -> list[tuple[str, tuple[str, AuditEntry]]]:
    found = []
    for space, entry in audit.waiting():
        found.append((entry.id, (space, entry)))
        if len(found) == MAX_BATCH:
            break
    return found


def commit_or_log(lake: Lake, documents: Documents) -> None:
    """Commit the waiting entries. A failure is logged: the entries wait, and the next call tries again."""
    try:
        commit_entries(lake, documents)
    except Exception as error:
        # Any error of the catalog, the storage or the network; also a lake that `neve init` has not updated.
        hint = error.hint if isinstance(error, LakeError) else ""
        log.warning("audit entries wait for their commit", error=str(error), hint=hint)


def to_rows(entries: Iterable[AuditEntry]) -> pa.Table:
    """Return a row of the table for each entry."""
    return pa.Table.from_pylist(
        [
            {
                "organization_id": entry.organization,
                "timestamp": entry.at,
                "entry_id": entry.id,
                "action": entry.action,
                "actor": entry.actor,
                "origin": entry.origin,
                "subject": entry.subject,
                "occurrences": entry.occurrences,
                "details": list(entry.details.items()),
            }
            for entry in entries
        ],
        schema=AUDIT.schema,
    )


@dataclass(frozen=True)
class AuditFilter:
    """Selection of entries. `where` is an SQL condition on the columns of the table, for operators only."""

    organization: str = ""
    action: str = ""
    since: datetime | None = None
    where: str = ""
    limit: int = 100

    @property
    def conditions(self) -> Sequence[str]:
        """Return the SQL conditions."""
        return [
            *([f"organization_id = {quote_literal(self.organization)}"] if self.organization else []),
            *([f"starts_with(action, {quote_literal(self.action)})"] if self.action else []),
            *([f"timestamp >= {quote_literal(self.since.isoformat())}::TIMESTAMPTZ"] if self.since else []),
            *([f"({self.where}\n)"] if self.where else []),
        ]


def read_entries(lake: Lake, documents: Documents, wanted: AuditFilter) -> list[dict[str, Any]]:
    """Return entries, newest first, also those that wait for their commit. Raises `ConfigError` for a wrong `where`."""
    import duckdb  # noqa: PLC0415 - for those who read

    waiting = to_rows(entry for _space, entry in AuditLog(documents).waiting())
    connection = connect(lake.s3, on_s3=lake.lake.on_s3)
    try:
        connection.register("waiting", waiting)
        where = " AND ".join(wanted.conditions) or "true"
        statement = (
            f"WITH audit AS ({_source(lake)}) SELECT * FROM audit WHERE {where} "  # noqa: S608 - the operator's own condition
            f"ORDER BY timestamp DESC, entry_id DESC LIMIT {wanted.limit:d}"
        )
        found: list[dict[str, Any]] = connection.execute(statement).to_arrow_table().to_pylist(maps_as_pydicts="lossy")
    except (duckdb.BinderException, duckdb.ParserException, duckdb.ConversionException) as error:
        first = (str(error).splitlines() or [""])[0]
        hint = f"the columns are {', '.join(column.name for column in AUDIT.columns)}"
        raise ConfigError(f"where is {wanted.where!r}: {first}", hint=hint) from error
    finally:
        connection.close()
    return found


def _source(lake: Lake) -> str:
    columns = ", ".join(column.name for column in AUDIT.columns)
    waiting = f"SELECT {columns} FROM waiting"  # noqa: S608 - declared names
    try:
        table = lake.table(AUDIT.name)
    except TableMissing:  # a lake of an older release, or none
        return waiting
    if table.metadata.current_snapshot_id is None:
        return waiting
    stored = f"SELECT {columns} FROM {scan_sql(table)}"  # noqa: S608 - as above
    # An entry is in both between its commit and its removal from the state store.
    return f"{stored} UNION ALL {waiting} WHERE entry_id NOT IN (SELECT entry_id FROM ({stored}))"  # noqa: S608
