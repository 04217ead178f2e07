"""The ledger of files: what was planned, what is done, and what was begun and never finished.

A run writes `planned` lines before it commits data and `done` lines after. Whoever finds a batch that was planned and not
done finishes it under its own id: tables that took it already recognise the id, the others take it then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import EqualTo

from neve.ingest.files import SourceFile
from neve.ingest.hashing import HashedFile
from neve.lake.commits import append_once
from neve.lake.writer import Target, write_files
from neve.model.columns import TIMESTAMP
from neve.model.tables import INGESTED_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.lake.lake import Lake

PLANNED, DONE, LOST = "planned", "done", "lost"
READ = ("batch_id", "state", "content_hash", "path", "size_bytes", "modified_at")


@dataclass(frozen=True)
class Ledger:
    """What is known of an organization's files, as of one snapshot."""

    snapshot_id: int | None
    done: frozenset[str]
    seen: frozenset[tuple[str, int, int]]
    pending: dict[str, tuple[HashedFile, ...]]


def read_ledger(lake: Lake, organization_id: str) -> Ledger:
    """The ledger as it is now."""
    table = lake.table(INGESTED_FILES.name)
    scan = table.scan(row_filter=EqualTo("organization_id", organization_id), selected_fields=READ)
    rows = scan.to_arrow() if table.current_snapshot() else INGESTED_FILES.schema.empty_table().select(READ)
    return fold_ledger(rows, table.metadata.current_snapshot_id)


def fold_ledger(rows: pa.Table, snapshot_id: int | None) -> Ledger:
    """Lines to knowledge: a batch is pending while it has planned lines and no others."""
    modified = rows.column("modified_at").cast(pa.int64()).to_pylist()
    columns = (rows.column(name).to_pylist() for name in READ[:-1])
    planned: dict[str, list[HashedFile]] = {}
    ended: set[str] = set()
    done: set[str] = set()
    seen: set[tuple[str, int, int]] = set()
    for batch_id, state, content_hash, path, size, changed in zip(*columns, modified, strict=True):
        file = HashedFile(SourceFile(path, size, changed), content_hash)
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
class Line:
    """What is to be remembered of one file."""

    file: HashedFile
    state: str
    signal: str | None = None
    format: str | None = None


def write_planned(
    lake: Lake, organization_id: str, batch_id: str, files: Iterable[HashedFile], now_us: int, read_at: int | None
) -> None:
    """Claim files for a batch; raises `TableMoved` when the ledger has changed since it was read."""
    lines = [Line(file, PLANNED) for file in files]
    _append(lake, organization_id, batch_id, lines, now_us, f"{batch_id}:{PLANNED}", only_at=read_at)


def write_ended(lake: Lake, organization_id: str, batch_id: str, lines: list[Line], now_us: int) -> None:
    """Remember how each file of a batch ended."""
    _append(lake, organization_id, batch_id, lines, now_us, f"{batch_id}:{DONE}")


def _append(
    lake: Lake, organization_id: str, batch_id: str, lines: list[Line], now_us: int, commit_id: str, **how: int | None
) -> None:
    table = lake.table(INGESTED_FILES.name)
    columns = {
        "organization_id": [organization_id] * len(lines),
        "recorded_at": pa.array([now_us] * len(lines), TIMESTAMP),
        "batch_id": [batch_id] * len(lines),
        "state": [line.state for line in lines],
        "content_hash": [line.file.content_hash for line in lines],
        "path": [line.file.source.path for line in lines],
        "size_bytes": [line.file.source.size for line in lines],
        "modified_at": pa.array([line.file.source.modified_us for line in lines], TIMESTAMP),
        "signal": pa.array([line.signal for line in lines], pa.string()),
        "format": pa.array([line.format for line in lines], pa.string()),
    }
    rows = pa.Table.from_pydict(columns, schema=INGESTED_FILES.schema)
    files = write_files(Target.of(table), rows)
    append_once(table, files, batch_id=commit_id, operation="ingest-ledger", **how)
