"""What Spark's tasks do: make the index rows of some data files, and write index files anew without stale rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan

from neve.lake.changes import partition_json
from neve.lake.content import content_of
from neve.lake.lane import keep_memory
from neve.lake.writer import Target, write_files
from neve.model.search import SEARCH_INDEX
from neve.search.filters import FORM, make_filter
from neve.search.texts import words_by_range

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pyiceberg.table import FileScanTask

    from neve.lake.content import Content
    from neve.search.texts import RangeWords


@dataclass(frozen=True)
class Indexing:
    """Data files of one organization that have no rows in the index; of each, the columns that it lacks."""

    owner: str
    files: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Thinning:
    """An index file of which some rows stay: those of these data files."""

    file: FileScanTask
    kept: frozenset[str]


@dataclass(frozen=True)
class Done:
    """What came of a task."""

    added: tuple[Content, ...] = ()
    files: int = 0
    left_out: int = 0
    rows: int = 0
    ranges: int = 0
    words: int = 0


@dataclass(frozen=True)
class Assignment:
    """What all tasks of a run have in common."""

    source: Target
    index: Target
    table_name: str
    rate: float
    range_rows: int
    built_at: datetime

    def __call__(self, task: Indexing | Thinning) -> Done:
        """Do one task."""
        keep_memory()
        return self._thin(task) if isinstance(task, Thinning) else self._index(task)

    def _index(self, task: Indexing) -> Done:
        lines: list[dict[str, object]] = []
        rows = words = left_out = 0
        for path, columns in task.files:
            before = len(lines)
            for column, part in self._parts(path, columns):
                lines.append(self._line(task.owner, path, column, part))
                words += len(part.hashes)
                rows += part.range.row_count
            left_out += len(lines) == before
        added = self._written(pa.Table.from_pylist(lines, schema=SEARCH_INDEX.schema)) if lines else ()
        return Done(added, len(task.files) - left_out, left_out, rows, len(lines), words)

    def _parts(self, path: str, columns: tuple[str, ...]) -> Iterator[tuple[str, RangeWords]]:
        schema = self.source.metadata.schema()
        for column in columns:
            field_id = schema.find_field(column).field_id
            for part in words_by_range(self.source.io, path, field_id, self.range_rows):
                yield column, part

    def _line(self, owner: str, path: str, column: str, part: RangeWords) -> dict[str, object]:
        return {
            "organization_id": owner,
            "table_name": self.table_name,
            "file_path": path,
            "column_name": column,
            "first_row": part.range.first_row,
            "row_count": part.range.row_count,
            "words": len(part.hashes),
            "form": FORM,
            "filter": make_filter(part.hashes, self.rate),
            "built_at": self.built_at,
        }

    def _thin(self, task: Thinning) -> Done:
        metadata = self.index.metadata
        scan = ArrowScan(metadata, self.index.io, metadata.schema(), AlwaysTrue())
        kept = pa.array(sorted(task.kept), pa.large_string())
        batches = [batch.filter(_stays(batch, kept)) for batch in scan.to_record_batches([task.file])]
        return Done(self._written(pa.Table.from_batches(batches)))

    def _written(self, rows: pa.Table) -> tuple[Content, ...]:
        metadata = self.index.metadata
        spec = metadata.default_spec_id
        files = write_files(self.index, rows)
        return tuple(content_of(file, spec, partition_json(metadata, file, spec)) for file in files)


def _stays(batch: pa.RecordBatch, kept: pa.Array) -> pa.Array:
    named = pc.is_in(batch.column("file_path").cast(pa.large_string()), value_set=kept)
    return pc.and_(named, pc.equal(batch.column("form"), FORM))
