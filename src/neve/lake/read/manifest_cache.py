"""Read manifests into compact file entries, cached up to a bound, and find the delete files of each data file.

A manifest never changes. The Iceberg specification defines the delete files that apply to a data file.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFileContent, FileFormat

from neve.lake.read.file_values import PATH_ID, find_referenced_path, partition_values, read_bounds
from neve.lake.read.snapshot_files import has_live_files, list_manifests, read_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table import Table


CACHED_ENTRIES_DEFAULT = 50_000  # entries; about 2 kB each
EMPTY: Mapping[int, Any] = {}


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A live file of a manifest, with the values for pruning.

    The names are those that pyiceberg's evaluators expect.
    """

    file_path: str
    file_size_in_bytes: int
    record_count: int
    spec_id: int
    partition: tuple[Any, ...]
    sequence: int
    content: DataFileContent
    file_format: FileFormat
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int]
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]

    @property
    def is_deletion_vector(self) -> bool:
        """Return whether it is a deletion vector, which only newer readers support."""
        return self.file_format == FileFormat.PUFFIN


class ManifestCache:
    """Cache of manifests, each of which is read once. The least recently used is evicted first."""

    def __init__(self, max_entries: int = CACHED_ENTRIES_DEFAULT) -> None:
        self._max_entries = max_entries
        self._size = 0
        self._lock = threading.Lock()
        self._memory: OrderedDict[str, tuple[Any, ...]] = OrderedDict()

    def of(self, table: Table) -> tuple[ManifestFile, ...]:
        """Return the manifests of the current snapshot that have live files."""
        snapshot = table.metadata.current_snapshot()
        if snapshot is None:
            return ()
        if not snapshot.manifest_list:
            return _list_live_manifests(table)
        return self._remember(snapshot.manifest_list, lambda: _list_live_manifests(table))

    def entries(self, table: Table, manifest: ManifestFile) -> tuple[FileEntry, ...]:
        """Return the live files of a manifest."""
        return self._remember(manifest.manifest_path, lambda: tuple(map(_to_file_entry, read_entries(table, manifest))))

    def __len__(self) -> int:
        return self._size

    def holds(self, manifest: ManifestFile) -> bool:
        """Return whether the entries of a manifest are cached."""
        return manifest.manifest_path in self._memory

    def _remember(self, path: str, read: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        with self._lock:
            if path in self._memory:
                self._memory.move_to_end(path)
                return self._memory[path]
        values = read()
        with self._lock:
            if path not in self._memory:
                self._memory[path] = values
                self._size += len(values)
            while self._size > self._max_entries:
                self._size -= len(self._memory.popitem(last=False)[1])
        return values


def count_live_files(manifest: ManifestFile) -> int:
    """Return the number of live files of a manifest, from the manifest list."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _list_live_manifests(table: Table) -> tuple[ManifestFile, ...]:
    return tuple(filter(has_live_files, list_manifests(table)))


def _to_file_entry(entry: ManifestEntry) -> FileEntry:
    file = entry.data_file
    return FileEntry(
        file_path=file.file_path,
        file_size_in_bytes=file.file_size_in_bytes,
        record_count=file.record_count,
        spec_id=file.spec_id,
        partition=partition_values(file),
        sequence=entry.sequence_number or 0,
        content=file.content,
        file_format=file.file_format,
        value_counts=file.value_counts or EMPTY,
        null_value_counts=file.null_value_counts or EMPTY,
        nan_value_counts=file.nan_value_counts or EMPTY,
        lower_bounds=file.lower_bounds or EMPTY,
        upper_bounds=file.upper_bounds or EMPTY,
    )


EQUALITY = "rows are deleted by their values, which only Spark can apply"
VECTORS = "rows are deleted by deletion vectors, which only Spark can apply"
FOREIGN = "rows are deleted by files that are not Parquet, which only Spark can apply"


class DeleteFiles:
    """Position-delete files, by the data file that they refer to, or else by its partition."""

    def __init__(self, entries: Iterable[FileEntry]) -> None:
        self._by_path: dict[str, list[FileEntry]] = defaultdict(list)
        self._by_partition: dict[tuple[int, tuple[Any, ...]], list[FileEntry]] = defaultdict(list)
        self.only_spark = ""
        for entry in entries:
            self.only_spark = self.only_spark or _spark_reason(entry)
            path = find_referenced_path(entry)
            if path is not None:
                self._by_path[path].append(entry)
            else:
                self._by_partition[entry.spec_id, entry.partition].append(entry)

    def of(self, data: FileEntry) -> tuple[str, ...]:
        """Return the delete files that may apply to a data file: none is older than it."""
        about = self._by_path.get(data.file_path, ()), self._by_partition.get((data.spec_id, data.partition), ())
        return tuple(
            delete.file_path
            for found in about
            for delete in found
            if delete.sequence >= data.sequence and _may_name(delete, data.file_path.encode())
        )


def _spark_reason(entry: FileEntry) -> str:
    if entry.content == DataFileContent.EQUALITY_DELETES:
        return EQUALITY
    if entry.is_deletion_vector:
        return VECTORS
    return "" if entry.file_format == FileFormat.PARQUET else FOREIGN


def _may_name(delete: FileEntry, path: bytes) -> bool:
    lower, upper = read_bounds(delete, PATH_ID)
    return (lower is None or lower <= path) and (upper is None or path <= upper)
