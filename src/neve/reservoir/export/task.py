"""What a Spark task does: rows of some files of the lake become a part, children before the rows that they hang on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io.pyarrow import ArrowScan

from neve.lake.filesystem import filesystem_of
from neve.model.tables import BY_SIGNAL
from neve.otap.files import write_file
from neve.otap.folder import part_path
from neve.otap.from_lake import Part, PartFull
from neve.otap.star_rows import SIGNALS
from neve.otap.tables import STARS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import FileScanTask

    from neve.lake.config import S3Config
    from neve.lake.writer import Target
    from neve.reservoir.export.request import ExportRequest

CHUNK_ROWS = 20_000  # converted together
FILE_ROWS = 400_000  # of the root in a file


@dataclass
class Exported:
    """What was written: parts, files, bytes and the rows of each table, and what OTAP can't say, by name."""

    parts: list[str] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)

    def add(self, other: Exported) -> None:
        """Take in what another task wrote."""
        self.parts += other.parts
        self.files += other.files
        self.bytes += other.bytes
        self.rows += other.rows
        self.losses += other.losses


@dataclass(frozen=True)
class ExportTask:
    """Writes the part of one task. It pickles."""

    request: ExportRequest
    source: Target
    s3: S3Config

    def __call__(self, task: tuple[int, tuple[FileScanTask, ...]]) -> Exported:
        """Read the files of a task and write what they hold."""
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
                    yield declared(self.request.table, batch.slice(start, CHUNK_ROWS))


class PartWriter:
    """Turns rows into files of a part, and begins another part when one is full."""

    def __init__(self, request: ExportRequest, s3: S3Config, number: int) -> None:
        self.request = request
        self.number = number
        self.filesystem, self.base = filesystem_of(request.folder, s3)
        self.done = Exported()
        self._begin()

    def take(self, rows: pa.RecordBatch) -> None:
        """Take some rows in; what is enough for files is written."""
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

    def finish(self) -> Exported:
        """Write the rest; everything that was written."""
        self._end()
        return self.done

    def _begin(self) -> None:
        self.part = Part(self.request.table)
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
        """Write what is held, the root last: whoever sees a row finds what hangs on it."""
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


def declared(table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with the columns that the wire knows: those that an older table lacks are null."""
    schema = BY_SIGNAL[SIGNALS[table]].schema
    columns = [
        batch.column(kind.name).cast(kind.type) if kind.name in batch.schema.names else pa.nulls(len(batch), kind.type)
        for kind in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
