"""What is to be done to an index: files that it lacks, and rows about files that are gone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, EqualTo, Reference
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import FileFormat, ManifestContent

from neve.errors import LakeError
from neve.lake.changes import owner_of, partition_json
from neve.lake.content import bare_content
from neve.search.filters import FORM
from neve.search.tasks import Indexing, Thinning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

    from neve.lake.content import Content

TASK_BYTES = 256 * 1024 * 1024  # 256 MB of data files, whose filters a task holds in memory


@dataclass(frozen=True)
class LiveFile:
    """A data file of the indexed table; without an owner where its rows are of several organizations."""

    path: str
    owner: str | None
    bytes: int
    rows: int
    is_parquet: bool = True

    @property
    def can_be_indexed(self) -> bool:
        """Whether it is of one organization and of the format that is read."""
        return self.owner is not None and self.is_parquet


@dataclass(frozen=True)
class Held:
    """A file of the index, and what it has: data files with the columns, and how many rows are of an older form."""

    file: FileScanTask
    texts: frozenset[tuple[str, str]]
    outdated: int = 0


@dataclass(frozen=True)
class Planned:
    """Tasks, and index files of which no row stays."""

    reason: str
    tasks: tuple[Indexing | Thinning, ...]
    removed: tuple[FileScanTask, ...]
    left_out: int

    @property
    def indexed(self) -> tuple[str, ...]:
        """The data files that are to be indexed."""
        return tuple(path for task in self.tasks if isinstance(task, Indexing) for path, _columns in task.files)


def plan_build(live: Sequence[LiveFile], held: Sequence[Held], columns: Sequence[str]) -> Planned:
    """Compare what is there with what is indexed."""
    there = {text for one in held for text in one.texts}
    paths = {file.path for file in live}
    missing = [
        (file, lacking)
        for file in live
        if file.can_be_indexed and (lacking := tuple(name for name in columns if (file.path, name) not in there))
    ]
    removed, thinned = [], []
    for one in held:
        kept = {path for path, _column in one.texts} & paths
        if not kept:
            removed.append(one.file)
        elif one.outdated or len(kept) < len({path for path, _column in one.texts}):
            thinned.append(Thinning(one.file, frozenset(kept)))
    reason = _reason(len(missing), len(removed) + len(thinned))
    left_out = sum(not file.can_be_indexed for file in live)
    return Planned(reason, (*packed(missing), *thinned), tuple(removed), left_out)


def packed(missing: Iterable[tuple[LiveFile, tuple[str, ...]]], most: int = TASK_BYTES) -> list[Indexing]:
    """Files in tasks of one organization each and of about as many bytes."""
    tasks: list[Indexing] = []
    by_owner: defaultdict[str, list[tuple[LiveFile, tuple[str, ...]]]] = defaultdict(list)
    for file, lacking in missing:
        by_owner[str(file.owner)].append((file, lacking))
    for owner, files in sorted(by_owner.items()):
        lot: list[tuple[str, tuple[str, ...]]] = []
        size = 0
        for file, lacking in sorted(files, key=lambda one: one[0].path):
            if lot and size + file.bytes > most:
                tasks.append(Indexing(owner, tuple(lot)))
                lot, size = [], 0
            lot.append((file.path, lacking))
            size += file.bytes
        tasks.append(Indexing(owner, tuple(lot)))
    return tasks


def _reason(missing: int, stale: int) -> str:
    """Why something is done, or nothing.

    >>> _reason(2, 0), _reason(0, 0)
    ('2 files are not indexed', 'every file is indexed')
    """
    said = [f"{missing} {'file is' if missing == 1 else 'files are'} not indexed"] if missing else []
    if stale:
        said.append(f"{stale} index {'file has' if stale == 1 else 'files have'} rows about files that are gone")
    return ", ".join(said) or "every file is indexed"


def live_files(table: Table) -> list[LiveFile]:
    """The data files of a table's current snapshot."""
    return [
        LiveFile(
            file.file_path,
            owner_of(table, file),
            file.file_size_in_bytes,
            file.record_count,
            file.file_format == FileFormat.PARQUET,
        )
        for file in _data_files(table)
    ]


def held_files(index: Table, table_name: str) -> list[Held]:
    """What the index has of a table; reads the paths alone."""
    return [_held(index, task) for task in index_files(index, table_name)]


def index_files(index: Table, table_name: str) -> list[FileScanTask]:
    """The files of the index that are about a table, with what is deleted of them."""
    if index.metadata.current_snapshot_id is None:
        return []
    try:
        return list(index.scan(row_filter=EqualTo(term=Reference("table_name"), value=table_name)).plan_files())
    except ValueError as error:
        if "equality" not in str(error).lower():
            raise
        name = ".".join(index.name())
        raise LakeError(
            f"{name} has equality deletes, which can't be read without Spark",
            hint=f"`neve compact run {name} --strategy deletes` applies them; then run this again",
        ) from error


def content_to_remove(index: Table, task: FileScanTask) -> Content:
    """What is enough of an index file to take it out."""
    file = task.file
    return bare_content(
        file.file_path,
        file.file_format.value,
        file.spec_id,
        partition_json(index.metadata, file, file.spec_id),
        file.file_size_in_bytes,
        file.record_count,
    )


def _held(index: Table, task: FileScanTask) -> Held:
    schema = index.schema().select("file_path", "column_name", "form")
    texts: set[tuple[str, str]] = set()
    outdated = 0
    for batch in ArrowScan(index.metadata, index.io, schema, AlwaysTrue()).to_record_batches([task]):
        columns = (batch.column(name).to_pylist() for name in ("file_path", "column_name", "form"))
        for path, column, form in zip(*columns, strict=True):
            if form == FORM:
                texts.add((path, column))
            else:
                outdated += 1
    return Held(task, frozenset(texts), outdated)


def _data_files(table: Table) -> Iterator[DataFile]:
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else []:
        if manifest.content == ManifestContent.DATA:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                yield entry.data_file
