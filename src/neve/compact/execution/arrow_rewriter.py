"""Rewrite a group with pyarrow in one Spark task, which returns only descriptions of the new files."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.types import PrimitiveType

from neve.compact.execution.external_sort import sort_rows
from neve.compact.execution.rewritten_group import Fingerprint, RewrittenGroup
from neve.compact.execution.verification import FingerprintCounter, sum_fingerprints
from neve.compact.plan import Executor
from neve.lake.read.data_file_reader import DataFileReader, MissingFieldIds, MixedSchemas
from neve.lake.read.partition_stats import TargetSizes
from neve.lake.spark.java_table import DATA_PATH
from neve.lake.spark.tasks import release_memory, use_jemalloc
from neve.lake.write.data_file_json import data_file_to_json
from neve.lake.write.data_file_writer import DataFileOptions, DataFileWriter
from neve.lake.write.encoding import decode_dictionaries
from neve.lake.write.layout import find_partition_key
from neve.lake.write.sort_columns import find_sort_columns, is_fully_sorted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata

    from neve.compact.plan import Group
    from neve.lake.write.table_writer import Target


@dataclass(frozen=True)
class ArrowTask:
    """Input of a worker that rewrites a group."""

    target: Target
    group: Group
    folder: str
    target_bytes: int
    hashed: tuple[str, ...]
    sort_memory: int


@dataclass(frozen=True)
class UnsuitedGroup:
    """A group that this executor can't rewrite, and the reason. The other executor can."""

    group_id: str
    reason: str


def rewrite_group(task: ArrowTask) -> RewrittenGroup | UnsuitedGroup:
    """Read the group's files, write new files, and read them back."""
    use_jemalloc()
    try:
        return _try_rewrite(task)
    finally:
        release_memory()


def _try_rewrite(task: ArrowTask) -> RewrittenGroup | UnsuitedGroup:
    try:
        try:
            return _rewrite(task, with_dictionaries=_hashes_plain_columns(task))
        except (MixedSchemas, pa.ArrowNotImplementedError):  # dictionaries that can't be unified
            return _rewrite(task, with_dictionaries=False)
    except OSError:
        raise  # a storage fault may be temporary
    except MissingFieldIds as error:
        return UnsuitedGroup(task.group.id, str(error))
    except Exception as error:  # Spark's reader and writer support everything that pyarrow or pyiceberg does not
        return UnsuitedGroup(task.group.id, f"{type(error).__name__}: {error}")


def _hashes_plain_columns(task: ArrowTask) -> bool:
    """Return whether the hashed columns can be read without dictionaries at low cost."""
    schema = task.target.metadata.schema()
    return all(isinstance(schema.find_type(name), PrimitiveType) for name in task.hashed)


def _rewrite(task: ArrowTask, *, with_dictionaries: bool) -> RewrittenGroup:
    started, cpu = time.monotonic(), time.process_time()
    metadata = _with_data_folder(task.target.metadata, task.folder)
    partitioned_by = frozenset(field.source_id for field in metadata.spec().fields)
    files = DataFileReader(task.target.io, metadata.schema(), partitioned_by, with_dictionaries=with_dictionaries)
    read: list[Fingerprint] = []
    rows = _lay_out(_read_and_count(files, task, read), task)
    first = next(rows, None)
    if first is None:
        return RewrittenGroup(
            task.group.id, Executor.ARROW, (), sum_fingerprints(read), Fingerprint(), time.monotonic() - started
        )
    with _open_writer(task, metadata, first, files.dictionaries) as writer:
        for piece in chain((first,), rows):
            writer.write(piece)
    counting = FingerprintCounter(task.hashed)
    for file in writer.files:
        for piece in files.read_columns(file.file_path, task.hashed or metadata.schema().column_names[:1]):
            counting.add(piece)
    return RewrittenGroup(
        group_id=task.group.id,
        executor=Executor.ARROW,
        added=tuple(
            data_file_to_json(file, metadata.default_spec_id, task.group.partition.values) for file in writer.files
        ),
        before=sum_fingerprints(read),
        after=counting.end(),
        seconds=time.monotonic() - started,
        cpu_seconds=time.process_time() - cpu,
    )


def _with_data_folder(metadata: TableMetadata, folder: str) -> TableMetadata:
    """Return the table metadata with a folder for new files."""
    return metadata.model_copy(update={"properties": {**metadata.properties, DATA_PATH: folder}})


def _read_and_count(files: DataFileReader, task: ArrowTask, fingerprints: list[Fingerprint]) -> Iterator[pa.Table]:
    """Yield the rows of all files, and append their fingerprint to `fingerprints`.

    Raises `MissingFieldIds` if the number of rows of a file differs from the table's metadata.
    """
    counting = FingerprintCounter(task.hashed)
    for file in task.group.files:
        before = counting.rows
        for piece in files.read(file.path):
            counting.add(piece)
            yield piece
        if counting.rows - before != file.rows:
            raise MissingFieldIds(
                f"{file.path} has {counting.rows - before} rows, the table's metadata has {file.rows}"
            )
    fingerprints.append(counting.end())


def _lay_out(pieces: Iterable[pa.Table], task: ArrowTask) -> Iterator[pa.Table]:
    if task.group.layout.kind == "keep":
        return iter(pieces)
    return sort_rows(pieces, task.group.layout.columns, task.sort_memory)


def _open_writer(task: ArrowTask, metadata: TableMetadata, first: pa.Table, dictionaries: set[str]) -> DataFileWriter:
    outputs = max(1, task.group.estimate.output_files)
    shape = DataFileOptions(
        sort_order_id=_order_id(task, metadata),
        target_bytes=TargetSizes(task.target_bytes).large,
        rows_per_file=-(-task.group.rows // outputs),
        dictionaries=dictionaries,
    )
    return DataFileWriter(
        metadata,
        task.target.io,
        find_partition_key(decode_dictionaries(first.slice(0, 1)), metadata.schema(), metadata.spec()),
        shape,
    )


def _order_id(task: ArrowTask, metadata: TableMetadata) -> int | None:
    """Return the id of the table's sort order, if the rows have it now."""
    schema, order = metadata.schema(), metadata.sort_order()
    has_it = (
        order.fields
        and is_fully_sorted(schema, order)
        and tuple(find_sort_columns(schema, order)) == _sort_order_columns(task)
    )
    return metadata.default_sort_order_id if has_it else None


def _sort_order_columns(task: ArrowTask) -> tuple[str, ...]:
    return task.group.layout.columns if task.group.layout.kind == "sort" else ()
