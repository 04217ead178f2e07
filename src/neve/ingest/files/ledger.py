"""The ledger of files: what was planned, what is done, and what was begun and never finished.

A run writes `planned` lines before it commits data and `done` lines after. Whoever finds a batch that was planned and
not done finishes it under its own id: tables that took it already recognise the id, the others take it then. A planned
line keeps the signal and format that the user named, so that whoever finishes reads the file in the same way.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import EqualTo, Reference

from neve.ingest.files.find import SourceFile
from neve.ingest.files.hashing import HashedFile
from neve.lake.commits import append_once, at_snapshot
from neve.lake.writer import Target, write_files
from neve.model.columns import TIMESTAMP
from neve.model.tables import INGESTED_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.lake.commits import Guard
    from neve.lake.lake import Lake

PLANNED, DONE, LOST = "planned", "done", "lost"
READ = ("batch_id", "state", "content_hash", "path", "size_bytes", "signal", "format", "modified_at")


@dataclass(frozen=True)
class Ledger:
    """What is known of an organization's files, as of one snapshot."""

    snapshot_id: int | None
    done: frozenset[str]
    seen: frozenset[tuple[str, int, int]]
    pending: dict[str, tuple[HashedFile, ...]]


@dataclass(frozen=True)
class Line:
    """What is to be remembered of one file."""

    file: HashedFile
    state: str
    signal: str | None = None
    format: str | None = None


def fold_ledger(rows: pa.Table, snapshot_id: int | None) -> Ledger:
    """Lines to knowledge: a batch is pending while it has planned lines and no others."""
    modified = rows.column("modified_at").cast(pa.int64()).to_pylist()
    columns = (rows.column(name).to_pylist() for name in READ[:-1])
    planned: dict[str, list[HashedFile]] = {}
    ended: set[str] = set()
    done: set[str] = set()
    seen: set[tuple[str, int, int]] = set()
    for batch_id, state, content_hash, path, size, signal, form, changed in zip(*columns, modified, strict=True):
        file = HashedFile(SourceFile(path, size, changed), content_hash, signal, form)
        if state == PLANNED:
            planned.setdefault(batch_id, []).append(file)
        else:
            ended.add(batch_id)
        if state == DONE:
            done.add(content_hash)
            seen.add(file.source.seen_as)
    pending = {batch: tuple(files) for batch, files in planned.items() if batch not in ended}
    return Ledger(snapshot_id, frozenset(done), frozenset(seen), pending)


@dataclass(frozen=True)
class LedgerTable:
    """The table that holds an organization's ledger."""

    lake: Lake
    organization_id: str

    def read(self) -> Ledger:
        """The ledger as it is now."""
        table = self.lake.table(INGESTED_FILES.name)
        own = EqualTo(term=Reference("organization_id"), value=self.organization_id)
        scan = table.scan(row_filter=own, selected_fields=READ)
        rows = scan.to_arrow() if table.current_snapshot() else INGESTED_FILES.schema.empty_table().select(READ)
        return fold_ledger(rows, table.metadata.current_snapshot_id)

    def plan(self, batch_id: str, files: Iterable[HashedFile], *, read_at: int | None) -> None:
        """Claim files for a batch; raises `TableMoved` when the ledger has changed since it was read."""
        self._append(
            batch_id,
            PLANNED,
            [Line(file, PLANNED, file.signal, file.format) for file in files],
            guard=at_snapshot(read_at),
        )

    def end(self, batch_id: str, lines: list[Line]) -> None:
        """Remember how each file of a batch ended."""
        self._append(batch_id, DONE, lines)

    def _append(self, batch_id: str, step: str, lines: list[Line], guard: Guard | None = None) -> None:
        table = self.lake.table(INGESTED_FILES.name)
        files = write_files(Target.of(table), self._rows(batch_id, lines))
        append_once(table, files, batch_id=f"{batch_id}:{step}", operation="ingest-ledger", guard=guard)

    def _rows(self, batch_id: str, lines: list[Line]) -> pa.Table:
        now = time.time_ns() // 1000
        columns = {
            "organization_id": [self.organization_id] * len(lines),
            "recorded_at": pa.array([now] * len(lines), TIMESTAMP),
            "batch_id": [batch_id] * len(lines),
            "state": [line.state for line in lines],
            "content_hash": [line.file.content_hash for line in lines],
            "path": [line.file.source.path for line in lines],
            "size_bytes": [line.file.source.size for line in lines],
            "modified_at": pa.array([line.file.source.modified_us for line in lines], TIMESTAMP),
            "signal": pa.array([line.signal for line in lines], pa.string()),
            "format": pa.array([line.format for line in lines], pa.string()),
        }
        return pa.Table.from_pydict(columns, schema=INGESTED_FILES.schema)
