"""The ledger of ingested files, and the selection of new files by it.

A run writes `planned` lines before it commits data, and `done` lines after. The next run finishes a planned batch
without `done` lines under the same id: tables that have it recognise the id, the others ingest it then. A planned line
stores the signal and format that the user named, so that the next run reads the file in the same way.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import EqualTo, Reference

from neve.ingest.files.formats import Compression, read_name
from neve.ingest.files.source_files import HashedFile, SourceFile
from neve.lake.commit.append import append_once, require_snapshot
from neve.lake.write.table_writer import Target, write_files
from neve.model.columns import TIMESTAMP
from neve.model.tables import INGESTED_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.lake.commit.append import Guard
    from neve.lake.lake import Lake


PLANNED, DONE, LOST = "planned", "done", "lost"
READ = ("batch_id", "state", "content_hash", "path", "size_bytes", "signal", "format", "modified_at")


@dataclass(frozen=True)
class Ledger:
    """The known files of an organization, as of one snapshot."""

    snapshot_id: int | None
    done: frozenset[str]
    seen: frozenset[tuple[str, int, int]]
    pending: dict[str, tuple[HashedFile, ...]]


@dataclass(frozen=True)
class LedgerLine:
    """One line of the ledger about one file."""

    file: HashedFile
    state: str
    signal: str | None = None
    format: str | None = None


def fold_ledger(rows: pa.Table, snapshot_id: int | None) -> Ledger:
    """Build a ledger from its lines. A batch is pending while it has only planned lines."""
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
    """The table that stores an organization's ledger."""

    lake: Lake
    organization_id: str

    def read(self) -> Ledger:
        """Return the current ledger."""
        table = self.lake.table(INGESTED_FILES.name)
        own = EqualTo(term=Reference("organization_id"), value=self.organization_id)
        scan = table.scan(row_filter=own, selected_fields=READ)
        rows = scan.to_arrow() if table.current_snapshot() else INGESTED_FILES.schema.empty_table().select(READ)
        return fold_ledger(rows, table.metadata.current_snapshot_id)

    def plan(self, batch_id: str, files: Iterable[HashedFile], *, read_at: int | None) -> None:
        """Claim files for a batch. Raises `TableMoved` if the ledger has changed since it was read."""
        self._append(
            batch_id,
            PLANNED,
            [LedgerLine(file, PLANNED, file.signal, file.format) for file in files],
            guard=require_snapshot(read_at),
        )

    def end(self, batch_id: str, lines: list[LedgerLine]) -> None:
        """Record the outcome of each file of a batch."""
        self._append(batch_id, DONE, lines)

    def _append(self, batch_id: str, step: str, lines: list[LedgerLine], guard: Guard | None = None) -> None:
        table = self.lake.table(INGESTED_FILES.name)
        files = write_files(Target.of(table), self._rows(batch_id, lines))
        append_once(table, files, batch_id=f"{batch_id}:{step}", operation="ingest-ledger", guard=guard)

    def _rows(self, batch_id: str, lines: list[LedgerLine]) -> pa.Table:
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


IN_PROGRESS = "its content belongs to a batch in progress"
UNPACKED_FACTOR = 8  # assumed compression ratio, to balance the work


@dataclass(frozen=True)
class Skipped:
    """A skipped file, and the reason."""

    path: str
    reason: str
    quarantined: bool = False


@dataclass(frozen=True)
class Selection:
    """New files, and known files."""

    new: tuple[HashedFile, ...]
    skipped: tuple[Skipped, ...]


def select_new(files: Iterable[HashedFile], ledger: Ledger) -> Selection:
    """Return the files whose content is neither in the lake nor claimed, each content once."""
    claimed = {file.content_hash for files in ledger.pending.values() for file in files}
    paths: dict[str, str] = {}
    new, skipped = [], []
    for file in files:
        path = file.source.path
        if file.content_hash in ledger.done:
            skipped.append(Skipped(path, "its content was ingested before"))
        elif file.content_hash in claimed:
            skipped.append(Skipped(path, IN_PROGRESS))
        elif file.content_hash in paths:
            skipped.append(Skipped(path, f"it has the same content as {paths[file.content_hash]}"))
        else:
            paths[file.content_hash] = path
            new.append(file)
    return Selection(tuple(new), tuple(skipped))


def estimate_weight(file: HashedFile) -> int:
    """Return the estimated number of bytes to decode in a file."""
    packed = read_name(file.source.path).compression is not Compression.NONE
    return max(1, file.source.size * (UNPACKED_FACTOR if packed else 1))


def split_by_weight(files: Sequence[HashedFile], most: int, *, at_least: int = 1) -> list[tuple[HashedFile, ...]]:
    """Split files into runs of about equal weight, none much over `most`, and at least `at_least` if there are files.

    Neighbours stay together because files of one folder usually have one signal: a task then writes to fewer tables.
    """
    total = sum(map(estimate_weight, files))
    pieces = max(at_least, -(-total // most))
    runs: dict[int, list[HashedFile]] = {}
    before = 0
    for file in files:
        middle = before + estimate_weight(file) / 2
        runs.setdefault(int(middle * pieces / total), []).append(file)
        before += estimate_weight(file)
    return [tuple(run) for run in runs.values()]
