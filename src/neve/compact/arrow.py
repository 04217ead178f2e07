"""The Arrow executor: one Spark task rewrites one group with pyarrow, and only descriptions of files come back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.types import PrimitiveType

from neve.compact.fingerprint import Counting, Fingerprint, total
from neve.compact.order import sort_rows
from neve.compact.plan import Executor
from neve.compact.rewritten import Rewritten
from neve.lake.content import content_of
from neve.lake.encoding import plain
from neve.lake.java_table import DATA_PATH
from neve.lake.lane import keep_memory, release_memory
from neve.lake.layout import partition_key, sort_columns, sorts_fully
from neve.lake.parquet import DataFiles, ForeignFile, MixedFiles
from neve.lake.rolling import RollingWriter, Shape
from neve.lake.target_sizes import TargetSizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata

    from neve.compact.plan import Group
    from neve.lake.writer import Target


@dataclass(frozen=True)
class ArrowTask:
    """All that a worker needs to rewrite a group."""

    target: Target
    group: Group
    folder: str
    target_bytes: int
    hashed: tuple[str, ...]
    sort_memory: int


@dataclass(frozen=True)
class Unsuited:
    """A group that this executor can't rewrite after all, and why; the other one can."""

    group_id: str
    reason: str


def rewrite(task: ArrowTask) -> Rewritten | Unsuited:
    """Read the group's files, write them anew, and read back what was written."""
    keep_memory()
    try:
        return _rewritten(task)
    finally:
        release_memory()


def _rewritten(task: ArrowTask) -> Rewritten | Unsuited:
    try:
        try:
            return _rewrite(task, with_dictionaries=_hashes_plain_columns(task))
        except (MixedFiles, pa.ArrowNotImplementedError):  # dictionaries that do not fit together
            return _rewrite(task, with_dictionaries=False)
    except OSError:
        raise  # storage that fails now may not fail again
    except ForeignFile as error:
        return Unsuited(task.group.id, str(error))
    except Exception as error:  # whatever pyarrow or pyiceberg can't do with a table, Spark's reader and writer can
        return Unsuited(task.group.id, f"{type(error).__name__}: {error}")


def _hashes_plain_columns(task: ArrowTask) -> bool:
    """Whether what is hashed can be had without dictionaries at no great cost."""
    schema = task.target.metadata.schema()
    return all(isinstance(schema.find_type(name), PrimitiveType) for name in task.hashed)


def _rewrite(task: ArrowTask, *, with_dictionaries: bool) -> Rewritten:
    started, cpu = time.monotonic(), time.process_time()
    metadata = _under(task.target.metadata, task.folder)
    partitioned_by = frozenset(field.source_id for field in metadata.spec().fields)
    files = DataFiles(task.target.io, metadata.schema(), partitioned_by, with_dictionaries=with_dictionaries)
    read: list[Fingerprint] = []
    rows = _laid_out(_told(files, task, read), task)
    first = next(rows, None)
    if first is None:
        return Rewritten(task.group.id, Executor.ARROW, (), total(read), Fingerprint(), time.monotonic() - started)
    with _writer(task, metadata, first, files.dictionaries) as writer:
        for piece in chain((first,), rows):
            writer.write(piece)
    counting = Counting(task.hashed)
    for file in writer.files:
        for piece in files.read_columns(file.file_path, task.hashed or metadata.schema().column_names[:1]):
            counting.add(piece)
    return Rewritten(
        group_id=task.group.id,
        executor=Executor.ARROW,
        added=tuple(content_of(file, metadata.default_spec_id, task.group.partition.values) for file in writer.files),
        before=total(read),
        after=counting.end(),
        seconds=time.monotonic() - started,
        cpu_seconds=time.process_time() - cpu,
    )


def _under(metadata: TableMetadata, folder: str) -> TableMetadata:
    """The table, whose new files go under a folder."""
    return metadata.model_copy(update={"properties": {**metadata.properties, DATA_PATH: folder}})


def _told(files: DataFiles, task: ArrowTask, told: list[Fingerprint]) -> Iterator[pa.Table]:
    """The rows of all files, and what they are on the side; a file has as many rows as the table says, or it fails."""
    counting = Counting(task.hashed)
    for file in task.group.files:
        before = counting.rows
        for piece in files.read(file.path):
            counting.add(piece)
            yield piece
        if counting.rows - before != file.rows:
            raise ForeignFile(
                f"{file.path} has {counting.rows - before} rows where the table's metadata says {file.rows}"
            )
    told.append(counting.end())


def _laid_out(pieces: Iterable[pa.Table], task: ArrowTask) -> Iterator[pa.Table]:
    if task.group.layout.kind == "keep":
        return iter(pieces)
    return sort_rows(pieces, task.group.layout.columns, task.sort_memory)


def _writer(task: ArrowTask, metadata: TableMetadata, first: pa.Table, dictionaries: set[str]) -> RollingWriter:
    outputs = max(1, task.group.estimate.output_files)
    shape = Shape(
        sort_order_id=_order_id(task, metadata),
        target_bytes=TargetSizes(task.target_bytes).large,
        rows_per_file=-(-task.group.rows // outputs),
        dictionaries=dictionaries,
    )
    return RollingWriter(
        metadata, task.target.io, partition_key(plain(first.slice(0, 1)), metadata.schema(), metadata.spec()), shape
    )


def _order_id(task: ArrowTask, metadata: TableMetadata) -> int | None:
    """The table's sort order, where the rows have it now."""
    schema, order = metadata.schema(), metadata.sort_order()
    has_it = order.fields and sorts_fully(schema, order) and tuple(sort_columns(schema, order)) == _sorted_by(task)
    return metadata.default_sort_order_id if has_it else None


def _sorted_by(task: ArrowTask) -> tuple[str, ...]:
    return task.group.layout.columns if task.group.layout.kind == "sort" else ()
