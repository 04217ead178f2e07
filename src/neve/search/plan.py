"""Plan an index build: data files that the index lacks, and index rows of files that no longer exist."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, EqualTo, Reference
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import FileFormat

from neve.lake.read.file_values import find_organization
from neve.lake.read.snapshot_files import iterate_data_files, scan_files
from neve.search.bloom_filter import FORM
from neve.search.tasks import IndexTask, RewriteTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.table import FileScanTask, Table

TASK_BYTES = 256 * 1024 * 1024  # 256 MB of data files, whose filters a task holds in memory


@dataclass(frozen=True)
class LiveFile:
    """A data file of the indexed table. It has no owner if its rows belong to several organizations."""

    path: str
    owner: str | None
    bytes: int
    rows: int
    is_parquet: bool = True

    @property
    def can_be_indexed(self) -> bool:
        """Return whether it belongs to one organization and has a supported format."""
        return self.owner is not None and self.is_parquet


@dataclass(frozen=True)
class IndexFile:
    """A file of the index: its data files with their columns, and the number of rows of an older version."""

    file: FileScanTask
    texts: frozenset[tuple[str, str]]
    outdated: int = 0


@dataclass(frozen=True)
class BuildPlan:
    """Plan of a build: tasks, and index files of which no row remains."""

    reason: str
    tasks: tuple[IndexTask | RewriteTask, ...]
    removed: tuple[FileScanTask, ...]
    left_out: int

    @property
    def paths_to_index(self) -> tuple[str, ...]:
        """Return the data files to index."""
        return tuple(path for task in self.tasks if isinstance(task, IndexTask) for path, _columns in task.files)


def plan_build(live: Sequence[LiveFile], index_files: Sequence[IndexFile], columns: Sequence[str]) -> BuildPlan:
    """Compare the existing files with the indexed ones."""
    indexed_texts = {text for one in index_files for text in one.texts}
    paths = {file.path for file in live}
    missing = [
        (file, lacking)
        for file in live
        if file.can_be_indexed
        and (lacking := tuple(name for name in columns if (file.path, name) not in indexed_texts))
    ]
    removed, rewrites = [], []
    for one in index_files:
        remaining = {path for path, _column in one.texts} & paths
        if not remaining:
            removed.append(one.file)
        elif one.outdated or len(remaining) < len({path for path, _column in one.texts}):
            rewrites.append(RewriteTask(one.file, frozenset(remaining)))
    reason = _reason(len(missing), len(removed) + len(rewrites))
    left_out = sum(not file.can_be_indexed for file in live)
    return BuildPlan(reason, (*pack_tasks(missing), *rewrites), tuple(removed), left_out)


def pack_tasks(missing: Iterable[tuple[LiveFile, tuple[str, ...]]], most: int = TASK_BYTES) -> list[IndexTask]:
    """Pack files into tasks of one organization each and of similar size."""
    tasks: list[IndexTask] = []
    by_owner: defaultdict[str, list[tuple[LiveFile, tuple[str, ...]]]] = defaultdict(list)
    for file, lacking in missing:
        by_owner[str(file.owner)].append((file, lacking))
    for owner, files in sorted(by_owner.items()):
        batch: list[tuple[str, tuple[str, ...]]] = []
        size = 0
        for file, lacking in sorted(files, key=lambda one: one[0].path):
            if batch and size + file.bytes > most:
                tasks.append(IndexTask(owner, tuple(batch)))
                batch, size = [], 0
            batch.append((file.path, lacking))
            size += file.bytes
        tasks.append(IndexTask(owner, tuple(batch)))
    return tasks


def _reason(missing: int, stale: int) -> str:
    """Return the reason for a build, or for no build.

    >>> _reason(2, 0), _reason(0, 0)
    ('2 files are not indexed', 'every file is indexed')
    """
    parts = [f"{missing} {'file is' if missing == 1 else 'files are'} not indexed"] if missing else []
    if stale:
        parts.append(f"{stale} index {'file has' if stale == 1 else 'files have'} rows of deleted files")
    return ", ".join(parts) or "every file is indexed"


def live_files(table: Table) -> list[LiveFile]:
    """Return the data files of a table's current snapshot."""
    return [
        LiveFile(
            file.file_path,
            find_organization(table, file),
            file.file_size_in_bytes,
            file.record_count,
            file.file_format == FileFormat.PARQUET,
        )
        for file in iterate_data_files(table)
    ]


def load_index_files(index: Table, table_name: str) -> list[IndexFile]:
    """Return the index files of a table. Reads the paths alone."""
    mine = EqualTo(term=Reference("table_name"), value=table_name)
    return [_load_index_file(index, task) for task in scan_files(index, mine)]


def _load_index_file(index: Table, task: FileScanTask) -> IndexFile:
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
    return IndexFile(task, frozenset(texts), outdated)
