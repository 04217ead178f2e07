"""What is new in a table of spans since a snapshot: the files to read, and whether they are all there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform

from neve.errors import LakeError
from neve.lake.changes import changed_files, keeps_rows, said, snapshots_since
from neve.model.commits import OPERATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

NAME_MAPPING = "schema.name-mapping.default"  # there where files without ids of columns may be
FIELD_ID = b"PARQUET:field_id"
# Neve's own commits that change files and bring no spans.
TENDING = ("compact", "retention", "carry-positions", "deletes")


@dataclass(frozen=True)
class SpanFile:
    """A data file of spans; `bucket` is that of its trace ids, where the table is laid out so."""

    path: str
    rows: int
    bytes: int
    committed_us: int
    bucket: int | None = None
    deletes: tuple[str, ...] = ()
    by_id: bool = True  # whether its columns have ids; those of files that were added to a table from elsewhere may not


@dataclass(frozen=True)
class News:
    """Files to read to come from one snapshot to another; `whole` says why all files are read, where they are."""

    files: tuple[SpanFile, ...]
    since: int | None
    snapshot_id: int | None
    whole: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many spans are in the files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """How large the files are."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class Chunk:
    """Files that are summed up at once."""

    files: tuple[SpanFile, ...]

    @property
    def rows(self) -> int:
        """How many spans are in the files."""
        return sum(file.rows for file in self.files)


def news_since(table: Table, since: int | None, *, known: bool) -> News:
    """What came since a snapshot; every file where nothing was read before, or nobody can tell what is new."""
    current = table.metadata.current_snapshot_id
    if current is None:
        return News((), since, None)
    if not known:
        return everything(table, since, "nothing was read before")
    line = snapshots_since(table, since)
    if line is None:
        return everything(table, since, f"snapshot {since} is not in the table's history any more")
    rewritten = [snapshot for snapshot in line if _rewrites(snapshot)]
    if rewritten:
        return everything(table, since, f"snapshot {rewritten[0].snapshot_id} changed rows in place")
    try:
        files = [file for snapshot in line if _adds(snapshot) for file in _added(table, snapshot)]
    except FileNotFoundError:
        return everything(table, since, "files that list what is new were removed")
    return News(tuple(files), since, current)


def everything(table: Table, since: int | None, reason: str) -> News:
    """All files as they are now, with the rows that were deleted left out."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return News((), since, None)
    committed = _committed(table, snapshot)
    files = []
    for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files():
        _check_deletes(table, task.delete_files)
        deletes = tuple(sorted(file.file_path for file in task.delete_files))
        files.append(_span_file(table, task.file, committed.get(task.file.file_path, snapshot.timestamp_ms), deletes))
    return News(tuple(files), since, snapshot.snapshot_id, whole=reason)


def chunks_of(files: Sequence[SpanFile], most_rows: int) -> list[Chunk]:
    """Files in lots of a bounded number of rows; those of one bucket of trace ids stay together.

    So a trace's spans meet early, and what is kept of each lot is small.
    """
    chunks: list[list[SpanFile]] = []
    rows, kind = 0, None
    for file in sorted(files, key=_place):
        if not chunks or rows + file.rows > most_rows or (file.by_id, file.bucket) != kind:
            chunks.append([])
            rows, kind = 0, (file.by_id, file.bucket)
        chunks[-1].append(file)
        rows += file.rows
    return [Chunk(tuple(chunk)) for chunk in _joined(chunks, most_rows)]


def _place(file: SpanFile) -> tuple[bool, int, int, str]:
    return not file.by_id, -1 if file.bucket is None else file.bucket, file.committed_us, file.path


def _joined(chunks: list[list[SpanFile]], most_rows: int) -> Iterable[list[SpanFile]]:
    """Small lots put together: one statement costs as much as some ten thousand rows."""
    held: list[SpanFile] = []
    for chunk in chunks:
        if held and (held[0].by_id != chunk[0].by_id or sum(file.rows for file in (*held, *chunk)) > most_rows):
            yield held
            held = []
        held = [*held, *chunk]
    if held:
        yield held


def _adds(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation == Operation.APPEND


def _rewrites(snapshot: Snapshot) -> bool:
    """Whether a snapshot may have put new rows where old ones were, so that nobody can tell them apart."""
    if snapshot.summary is None or keeps_rows(snapshot) or snapshot.summary.operation != Operation.OVERWRITE:
        return False
    words = said(snapshot)
    return words.get(OPERATION) not in TENDING and int(words.get("added-records", "0")) > 0


def _added(table: Table, snapshot: Snapshot) -> Iterable[SpanFile]:
    for changed in changed_files(table, snapshot):
        if changed.added and not changed.deletes:
            yield _span_file(table, changed.file, snapshot.timestamp_ms)


def _span_file(table: Table, file: DataFile, committed_ms: int, deletes: tuple[str, ...] = ()) -> SpanFile:
    if file.file_format != FileFormat.PARQUET:
        raise LakeError(
            f"{file.file_path} of {'.'.join(table.name())} is {file.file_format.value}, expected Parquet",
            hint="tables of spans in other formats can't be read",
        )
    return SpanFile(
        file.file_path,
        file.record_count,
        file.file_size_in_bytes,
        committed_ms * 1000,
        bucket_of(table, file),
        deletes,
        by_id=NAME_MAPPING not in table.properties or _has_ids(table, file.file_path),
    )


def _has_ids(table: Table, path: str) -> bool:
    with cast("pa.NativeFile", table.io.new_input(path).open()) as opened:
        return any(FIELD_ID in (field.metadata or {}) for field in pq.ParquetFile(opened).schema_arrow)


def bucket_of(table: Table, file: DataFile) -> int | None:
    """The bucket of trace ids that a file's partition stands for, if the table has buckets of something."""
    for place, part in enumerate(table.metadata.specs()[file.spec_id].fields):
        if isinstance(part.transform, BucketTransform):
            value = file.partition[place]
            return None if value is None else int(value)
    return None


def _committed(table: Table, snapshot: Snapshot) -> dict[str, int]:
    """When the commit of each file was; of files older than the history, the oldest commit that is known."""
    times = {one.snapshot_id: one.timestamp_ms for one in table.metadata.snapshots}
    oldest = min(times.values())
    found: dict[str, int] = {}
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            moment = times.get(entry.snapshot_id, oldest) if entry.snapshot_id is not None else oldest
            found[entry.data_file.file_path] = moment
    return found


def _check_deletes(table: Table, files: Iterable[DataFile]) -> None:
    for file in files:
        if file.content != DataFileContent.POSITION_DELETES or file.file_format != FileFormat.PARQUET:
            raise LakeError(
                f"{'.'.join(table.name())} marks rows as deleted by {file.file_path}, which is no file of positions",
                hint="compact the table with its writer, so that deleted rows are gone from its files",
            )
