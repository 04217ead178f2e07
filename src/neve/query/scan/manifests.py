"""Manifests as planning reads them: lean entries, kept in memory up to a bound. A manifest never changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent
from pyiceberg.typedef import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table import Table

KEPT_DEFAULT = 50_000  # entries; about 2 kB each
EMPTY: Mapping[int, Any] = {}


@dataclass(frozen=True, slots=True)
class Entry:
    """A live file of a manifest, with what pruning looks at; named as pyiceberg's evaluators expect it."""

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
        """Whether it marks rows in a form that only newer readers know."""
        return self.file_format == FileFormat.PUFFIN


class Manifests:
    """Reads manifests once; what was not asked for the longest time goes first."""

    def __init__(self, kept: int = KEPT_DEFAULT) -> None:
        self._kept = kept
        self._size = 0
        self._lock = threading.Lock()
        self._memory: OrderedDict[str, tuple[Any, ...]] = OrderedDict()

    def of(self, table: Table) -> tuple[ManifestFile, ...]:
        """The manifests of the current snapshot that have live files."""
        snapshot = table.metadata.current_snapshot()
        if snapshot is None:
            return ()
        if not snapshot.manifest_list:
            return tuple(filter(_is_live, snapshot.manifests(table.io)))
        return self._remember(snapshot.manifest_list, lambda: tuple(filter(_is_live, snapshot.manifests(table.io))))

    def entries(self, table: Table, manifest: ManifestFile) -> tuple[Entry, ...]:
        """The live files of a manifest."""
        return self._remember(
            manifest.manifest_path, lambda: tuple(map(_lean, manifest.fetch_manifest_entry(table.io)))
        )

    def __len__(self) -> int:
        return self._size

    def holds(self, manifest: ManifestFile) -> bool:
        """Whether asking for a manifest's entries reads nothing."""
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
            while self._size > self._kept:
                self._size -= len(self._memory.popitem(last=False)[1])
        return values


def holds_deletes(manifest: ManifestFile) -> bool:
    """Whether a manifest lists files that mark rows of others."""
    return manifest.content == ManifestContent.DELETES


def live_files(manifest: ManifestFile) -> int:
    """How many files a manifest adds to the table, as the list of manifests says."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def as_record(partition: tuple[Any, ...]) -> Record:
    """Partition values as pyiceberg's evaluators take them."""
    return Record(*partition)


def _is_live(manifest: ManifestFile) -> bool:
    return manifest.has_added_files() or manifest.has_existing_files()


def _lean(entry: ManifestEntry) -> Entry:
    file = entry.data_file
    return Entry(
        file_path=file.file_path,
        file_size_in_bytes=file.file_size_in_bytes,
        record_count=file.record_count,
        spec_id=file.spec_id,
        partition=tuple(file.partition[place] for place in range(len(file.partition))),
        sequence=entry.sequence_number or 0,
        content=file.content,
        file_format=file.file_format,
        value_counts=file.value_counts or EMPTY,
        null_value_counts=file.null_value_counts or EMPTY,
        nan_value_counts=file.nan_value_counts or EMPTY,
        lower_bounds=file.lower_bounds or EMPTY,
        upper_bounds=file.upper_bounds or EMPTY,
    )
