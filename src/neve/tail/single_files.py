"""The files that may hold the spans of one trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg.expressions import In, Reference
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import BinaryType, FixedType, StringType, UUIDType

from neve.tail.news import everything

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from neve.tail.news import SpanFile
    from neve.tail.reading import SpanReader
    from neve.tail.source import Source


@dataclass(frozen=True)
class Found:
    """Files of a snapshot, and how they are read."""

    snapshot_id: int | None
    files: Sequence[SpanFile]
    reader: SpanReader


@dataclass
class TraceFiles:
    """Looks files up by the id of a trace; the list of all files is kept until the table changes."""

    source: Source
    _listed: Found | None = field(default=None, init=False)

    def of(self, trace_id: bytes) -> Found:
        """The files that may hold a trace's spans, in the newest snapshot."""
        table = self.source.now()
        listed = self._all(table)
        name = self.source.reader.columns.names["trace_id"]
        spellings = spellings_of(table.schema().find_field(name).field_type, trace_id)
        if not listed.files or not spellings:
            return listed
        buckets = _buckets(table, name, spellings)
        if buckets is not None:
            some = [file for file in listed.files if file.bucket is None or file.bucket in buckets]
        else:
            row_filter = In(term=Reference(name), literals=set(spellings))
            paths = {task.file.file_path for task in table.scan(row_filter=row_filter).plan_files()}
            some = [file for file in listed.files if file.path in paths]
        return Found(listed.snapshot_id, some, listed.reader)

    def _all(self, table: Table) -> Found:
        current = table.metadata.current_snapshot_id
        if self._listed is None or self._listed.snapshot_id != current:
            files = everything(table, None, "to look for a trace").files
            self._listed = Found(current, files, self.source.reader)
        return self._listed


def spellings_of(kind: IcebergType, trace_id: bytes) -> list[Any]:
    """How a column may say an id; nothing where it may say it in any way."""
    if isinstance(kind, BinaryType | FixedType):
        return [trace_id]
    if isinstance(kind, UUIDType):
        return [UUID(bytes=trace_id)]
    if isinstance(kind, StringType):
        texts = [trace_id.hex(), str(UUID(bytes=trace_id))]
        return [*texts, *(text.upper() for text in texts)]
    return []


def _buckets(table: Table, name: str, spellings: Sequence[Any]) -> set[int | None] | None:
    """The buckets that an id may be in; `None` where the table has none, or of something else, or changed them."""
    fields = [part for spec in table.metadata.specs().values() for part in spec.fields]
    transforms = {
        (part.source_id, part.transform.num_buckets) for part in fields if isinstance(part.transform, BucketTransform)
    }
    column = table.schema().find_field(name)
    if len(transforms) != 1 or next(iter(transforms))[0] != column.field_id:
        return None
    ((_column, count),) = transforms
    bucket = BucketTransform(count).transform(column.field_type)
    return {bucket(spelling) for spelling in spellings}
