"""Find the data files that a table of spans gained since a snapshot.

All files are listed instead if nothing was read before, or if the history does not show the new rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform

from neve.errors import LakeError
from neve.lake.read.history import read_summary, walk_history
from neve.lake.read.positions import NO_POSITION, find_changes
from neve.lake.read.snapshot_files import EVERY_ROW, iterate_entries, list_changed_files, scan_files
from neve.model.commits import BATCH_ID, ERASE, OPERATION, REPEATS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

NAME_MAPPING = "schema.name-mapping.default"  # exists if there may be files without column ids
FIELD_ID = b"PARQUET:field_id"
# Neve's own commits that change files and add no spans.
MAINTENANCE_OPERATIONS = ("compact", "retention", "carry-positions", "deletes", ERASE)


@dataclass(frozen=True)
class SpanFile:
    """Data file of spans, with the `bucket` of its trace ids if the table is partitioned by one."""

    path: str
    rows: int
    bytes: int
    committed_us: int
    bucket: int | None = None
    deletes: tuple[str, ...] = ()
    by_id: bool = True  # whether its columns have ids; files that were added to a table from elsewhere may have none


@dataclass(frozen=True)
class RepeatBatches:
    """Batches of ingestion whose rows of `span_repeats` count: some by id, and all before a time.

    Commits before that time are no longer in the history of the table of spans.
    """

    ids: frozenset[str] = frozenset()
    before_us: int | None = None

    def __bool__(self) -> bool:
        return bool(self.ids) or self.before_us is not None


@dataclass(frozen=True)
class NewFiles:
    """Files to read between two snapshots, with the reason in `whole` if all files must be read."""

    files: tuple[SpanFile, ...]
    since: int | None
    snapshot_id: int | None
    whole: str = ""
    remarks: tuple[str, ...] = ()
    repeats: RepeatBatches = RepeatBatches()

    @property
    def rows(self) -> int:
        """Number of spans in the files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Total size of the files."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class FileChunk:
    """Files that are aggregated together."""

    files: tuple[SpanFile, ...]

    @property
    def rows(self) -> int:
        """Number of spans in the files."""
        return sum(file.rows for file in self.files)


def find_new_files(table: Table, since: int | None, *, known: bool) -> NewFiles:
    """Find the files since a snapshot, or all files if none were read before or the history does not show new rows."""
    current = table.metadata.current_snapshot_id
    if current is None:
        return NewFiles((), since, None)
    changes = find_changes(table, since) if known else NO_POSITION
    if changes.gap:
        return list_all_files(table, since, changes.gap)
    rewritten = [snapshot for snapshot in changes.commits if _may_rewrite_rows(snapshot)]
    if rewritten:
        return list_all_files(table, since, f"snapshot {rewritten[0].snapshot_id} changed rows in place")
    try:
        appends = filter(_is_append, changes.commits)
        files = [file for snapshot in appends for file in _list_added_files(table, snapshot)]
    except FileNotFoundError:
        return list_all_files(table, since, "manifests with the new files were removed")
    return NewFiles(tuple(files), since, current, repeats=RepeatBatches(_list_repeat_batches(changes.commits)))


def list_all_files(table: Table, since: int | None, reason: str, row_filter: BooleanExpression = EVERY_ROW) -> NewFiles:
    """List all current files that may have rows of a filter, with the delete files that remove rows from them."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return NewFiles((), since, None)
    committed = _load_commit_times(table, snapshot)
    files = []
    for task in scan_files(table, row_filter, snapshot_id=snapshot.snapshot_id):
        _check_deletes(table, task.delete_files)
        deletes = tuple(sorted(file.file_path for file in task.delete_files))
        files.append(
            _build_span_file(table, task.file, committed.get(task.file.file_path, snapshot.timestamp_ms), deletes)
        )
    return NewFiles(tuple(files), since, snapshot.snapshot_id, whole=reason, repeats=find_all_repeats(table))


def find_all_repeats(table: Table) -> RepeatBatches:
    """Find the batches of a table's whole history.

    If its first commits have expired, the rows of batches before the oldest known commit count.
    """
    history = tuple(walk_history(table))
    is_complete = not find_changes(table, None).gap
    before_us = None if is_complete else min(snapshot.timestamp_ms for snapshot in history) * 1000
    return RepeatBatches(_list_repeat_batches(history), before_us)


def _list_repeat_batches(snapshots: Iterable[Snapshot]) -> frozenset[str]:
    summaries = map(read_summary, snapshots)
    return frozenset(words[BATCH_ID] for words in summaries if REPEATS in words and BATCH_ID in words)


def split_into_chunks(files: Sequence[SpanFile], most_rows: int) -> list[FileChunk]:
    """Split files into chunks of a bounded number of rows, and keep files of one bucket of trace ids together.

    So the spans of a trace are merged early, and the result of each chunk is small.
    """
    chunks: list[list[SpanFile]] = []
    rows, kind = 0, None
    for file in sorted(files, key=_sort_key):
        if not chunks or rows + file.rows > most_rows or (file.by_id, file.bucket) != kind:
            chunks.append([])
            rows, kind = 0, (file.by_id, file.bucket)
        chunks[-1].append(file)
        rows += file.rows
    return [FileChunk(tuple(chunk)) for chunk in _merge_small_chunks(chunks, most_rows)]


def _sort_key(file: SpanFile) -> tuple[bool, int, int, str]:
    return not file.by_id, -1 if file.bucket is None else file.bucket, file.committed_us, file.path


def _merge_small_chunks(chunks: list[list[SpanFile]], most_rows: int) -> Iterable[list[SpanFile]]:
    """Merge small chunks, as one statement costs as much as some ten thousand rows."""
    held: list[SpanFile] = []
    for chunk in chunks:
        if held and (held[0].by_id != chunk[0].by_id or sum(file.rows for file in (*held, *chunk)) > most_rows):
            yield held
            held = []
        held = [*held, *chunk]
    if held:
        yield held


def _is_append(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation == Operation.APPEND


def _may_rewrite_rows(snapshot: Snapshot) -> bool:
    """Return whether a snapshot may have replaced rows by new ones, so that new rows can't be identified."""
    if snapshot.summary is None or snapshot.summary.operation != Operation.OVERWRITE:
        return False
    words = read_summary(snapshot)
    return words.get(OPERATION) not in MAINTENANCE_OPERATIONS and int(words.get("added-records", "0")) > 0


def _list_added_files(table: Table, snapshot: Snapshot) -> Iterable[SpanFile]:
    for changed in list_changed_files(table, snapshot):
        if changed.added and not changed.deletes:
            yield _build_span_file(table, changed.file, snapshot.timestamp_ms)


def _build_span_file(table: Table, file: DataFile, committed_ms: int, deletes: tuple[str, ...] = ()) -> SpanFile:
    if file.file_format != FileFormat.PARQUET:
        raise LakeError(
            f"{file.file_path} of {'.'.join(table.name())} is {file.file_format.value}, expected Parquet",
            hint="only tables of Parquet files are supported",
        )
    return SpanFile(
        file.file_path,
        file.record_count,
        file.file_size_in_bytes,
        committed_ms * 1000,
        find_bucket(table, file),
        deletes,
        by_id=NAME_MAPPING not in table.properties or _has_ids(table, file.file_path),
    )


def _has_ids(table: Table, path: str) -> bool:
    with cast("pa.NativeFile", table.io.new_input(path).open()) as opened:
        return any(FIELD_ID in (field.metadata or {}) for field in pq.ParquetFile(opened).schema_arrow)


def find_bucket(table: Table, file: DataFile) -> int | None:
    """Return the bucket of trace ids of a file's partition, if the table has buckets."""
    for place, part in enumerate(table.metadata.specs()[file.spec_id].fields):
        if isinstance(part.transform, BucketTransform):
            value = file.partition[place]
            return None if value is None else int(value)
    return None


def _load_commit_times(table: Table, snapshot: Snapshot) -> dict[str, int]:
    """Return the commit time of each file, or the oldest known commit for files that are older than the history."""
    times = {one.snapshot_id: one.timestamp_ms for one in table.metadata.snapshots}
    oldest = min(times.values())
    return {
        entry.data_file.file_path: times.get(entry.snapshot_id, oldest) if entry.snapshot_id is not None else oldest
        for entry in iterate_entries(table, snapshot)
    }


def _check_deletes(table: Table, files: Iterable[DataFile]) -> None:
    for file in files:
        if file.content != DataFileContent.POSITION_DELETES or file.file_format != FileFormat.PARQUET:
            raise LakeError(
                f"{'.'.join(table.name())} has the delete file {file.file_path}, which has no positions",
                hint="compact the table with its writer to apply the deletes",
            )
