"""Export request, and the Spark task that writes rows of some lake files as a part, children before their parents.

The names of parts and files follow from the request alone, so that the same request always has the same names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

import pyarrow as pa
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan, Reference
from pyiceberg.io.pyarrow import ArrowScan

from neve.errors import ConfigError
from neve.lake.storage.filesystem import resolve_filesystem
from neve.model.tables import BY_SIGNAL
from neve.otap.folder import part_path
from neve.otap.from_lake import PartBuilder, PartFull
from neve.otap.star_rows import SIGNALS
from neve.otap.tables import STARS
from neve.otap.writer import write_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask

    from neve.lake.config import S3Config
    from neve.lake.write.table_writer import Target


EXPORTS = UUID("5d7f0b6e-3c1c-5f0e-9b57-0e6d1f0c8a44")  # the namespace of all names here


@dataclass(frozen=True)
class ExportRequest:
    """The rows of one organization in a table, from `since` until before `until`, and the folder for them."""

    folder: str
    table: str
    organization_id: str
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.since and self.until and self.since >= self.until:
            raise ConfigError(
                f"--since {self.since.isoformat()} is not before --until {self.until.isoformat()}",
                hint="rows are taken from --since until before --until",
            )

    @property
    def key(self) -> UUID:
        """Identifier of this request among others for the same folder."""
        times = [moment.isoformat() if moment else "" for moment in (self.since, self.until)]
        return uuid5(EXPORTS, "|".join([self.table, self.organization_id, *times]))

    @property
    def since_ms(self) -> int:
        """The start in milliseconds, which is part of file names."""
        return int(self.since.timestamp() * 1000) if self.since else 0

    @property
    def row_filter(self) -> BooleanExpression:
        """Filter for the requested rows."""
        rows: BooleanExpression = EqualTo(term=Reference("organization_id"), value=self.organization_id)
        if self.since:
            rows = And(rows, GreaterThanOrEqual(term=Reference("timestamp"), value=self.since.isoformat()))
        if self.until:
            rows = And(rows, LessThan(term=Reference("timestamp"), value=self.until.isoformat()))
        return rows

    def part_id(self, task: int, piece: int) -> str:
        """Return the id of a part.

        A task writes one part, and another if resources or scopes are too many for one.
        """
        return str(uuid5(self.key, f"{task}/{piece}"))

    def file_id(self, part: str, table: str, number: int) -> str:
        """Return the id of a file among others of its part and table."""
        return str(uuid5(UUID(part), f"{table}/{number}"))


CHUNK_ROWS = 20_000  # converted together
FILE_ROWS = 400_000  # of the root in a file


@dataclass
class ExportTotals:
    """Totals of an export: parts, files, bytes and the rows of each table, and the losses in OTAP, by name."""

    parts: list[str] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)

    def add(self, other: ExportTotals) -> None:
        """Add the totals of another task."""
        self.parts += other.parts
        self.files += other.files
        self.bytes += other.bytes
        self.rows += other.rows
        self.losses += other.losses


@dataclass(frozen=True)
class ExportTask:
    """Task that writes the part of some files.

    It can be pickled.
    """

    request: ExportRequest
    source: Target
    s3: S3Config

    def __call__(self, task: tuple[int, tuple[FileScanTask, ...]]) -> ExportTotals:
        """Read the files of a task and write their rows."""
        number, files = task
        writer = PartWriter(self.request, self.s3, number)
        for rows in self._chunks(files):
            writer.take(rows)
        return writer.finish()

    def _chunks(self, files: tuple[FileScanTask, ...]) -> Iterator[pa.RecordBatch]:
        metadata = self.source.metadata
        scan = ArrowScan(metadata, self.source.io, metadata.schema(), self.request.row_filter)
        for file in files:
            for batch in scan.to_record_batches([file]):
                for start in range(0, batch.num_rows, CHUNK_ROWS):
                    yield select_declared_columns(self.request.table, batch.slice(start, CHUNK_ROWS))


class PartWriter:
    """Writer of rows as files of a part.

    It begins another part when one is full.
    """

    def __init__(self, request: ExportRequest, s3: S3Config, number: int) -> None:
        self.request = request
        self.number = number
        self.filesystem, self.base = resolve_filesystem(request.folder, s3)
        self.done = ExportTotals()
        self._begin()

    def take(self, rows: pa.RecordBatch) -> None:
        """Add rows, and write them when there are enough for files."""
        try:
            tables = self.part.take(rows)
        except PartFull:
            self._end()
            self._begin()
            tables = self.part.take(rows)
        for name, table in tables.items():
            self.held.setdefault(name, []).append(table)
        self.held_rows += rows.num_rows
        if self.held_rows >= FILE_ROWS:
            self._flush()

    def finish(self) -> ExportTotals:
        """Write the remaining rows, and return the totals."""
        self._end()
        return self.done

    def _begin(self) -> None:
        self.part = PartBuilder(self.request.table)
        self.part_id = self.request.part_id(self.number, len(self.done.parts))
        self.flushed = 0
        self.held: dict[str, list[pa.Table]] = {}
        self.held_rows = 0

    def _end(self) -> None:
        self._flush()
        self.done.losses += self.part.losses
        if self.flushed:
            self.done.parts.append(self.part_id)

    def _flush(self) -> None:
        """Write the buffered rows, the root last: a reader that sees a row finds its children."""
        if not self.held_rows:
            return
        for table in reversed(STARS[self.request.table].tables):
            rows = pa.concat_tables(self.held[table])
            if rows.num_rows:
                self._write(table, rows)
        self.held, self.held_rows = {}, 0
        self.flushed += 1

    def _write(self, table: str, rows: pa.Table) -> None:
        name = self.request.file_id(self.part_id, table, self.flushed)
        path = part_path(self.base, table, self.part_id, self.request.since_ms, name)
        written = write_file(self.filesystem, path, table, rows, self.part_id)
        self.done.files += 1
        self.done.bytes += written.bytes
        self.done.rows[table] += written.rows


def select_declared_columns(table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Select the columns that the wire format has; those that an older table lacks are null."""
    schema = BY_SIGNAL[SIGNALS[table]].schema
    columns = [
        batch.column(kind.name).cast(kind.type) if kind.name in batch.schema.names else pa.nulls(len(batch), kind.type)
        for kind in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
