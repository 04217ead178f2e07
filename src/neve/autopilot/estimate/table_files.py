"""Data and delete files of the current snapshot, with the column statistics of the manifests.

Manifests are read one by one, and only the requested columns are kept: a table of many files takes little memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFileContent
from pyiceberg.types import PrimitiveType

from neve.autopilot.estimate.columns import find_bound_lengths
from neve.lake.read.file_values import find_referenced_path, partition_values
from neve.lake.read.manifests import is_unpartitioned
from neve.lake.read.snapshot_files import iterate_entries
from neve.predicate.comparable import Comparable, is_comparable, to_comparable
from neve.predicate.pruning import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from neve.predicate.compiled_filters import CompiledFilters


@dataclass(frozen=True)
class DeleteFile:
    """A file that marks rows of data files as deleted: of one file, of a partition, or of the whole table."""

    bytes: int
    spec_id: int
    partition: tuple[object, ...]
    sequence: int
    path: str | None
    is_everywhere: bool


@dataclass(frozen=True)
class FileLookup:
    """Index of the files of a spec by path and by partition."""

    spec_id: int
    everywhere: npt.NDArray[np.intp]
    by_path: dict[str, int]
    by_partition: dict[tuple[object, ...], list[int]]

    @classmethod
    def of(cls, spec_id: int, paths: Sequence[str], partitions: Sequence[tuple[object, ...]]) -> FileLookup:
        """Build the index from paths and partition values in the same order."""
        by_partition: dict[tuple[object, ...], list[int]] = {}
        for place, values in enumerate(partitions):
            by_partition.setdefault(values, []).append(place)
        by_path = {path: place for place, path in enumerate(paths)}
        return cls(spec_id, np.arange(len(paths)), by_path, by_partition)

    def of_delete(self, delete: DeleteFile) -> npt.NDArray[np.intp]:
        """Return the files that a delete may apply to, whenever they were written."""
        if delete.path is not None:
            found = [self.by_path[delete.path]] if delete.path in self.by_path else []
        elif delete.is_everywhere:
            return self.everywhere
        else:
            found = self.by_partition.get(delete.partition, []) if delete.spec_id == self.spec_id else []
        return np.array(found, dtype=np.intp)


def read_delete_file(table: Table, entry: ManifestEntry, spec_id: int) -> DeleteFile:
    """Read a delete file from its manifest entry."""
    file = entry.data_file
    is_equality = file.content == DataFileContent.EQUALITY_DELETES
    return DeleteFile(
        bytes=file.file_size_in_bytes,
        spec_id=spec_id,
        partition=partition_values(file),
        sequence=entry.sequence_number or 0,
        path=find_referenced_path(file),
        is_everywhere=is_equality and is_unpartitioned(table.specs()[spec_id]),
    )


@dataclass
class ColumnStatistics:
    """Statistics of one column in the manifests, file by file; `None` if a manifest has none."""

    kind: IcebergType
    field_id: int
    lows: list[Comparable | None] = field(default_factory=list)
    highs: list[Comparable | None] = field(default_factory=list)
    may_have_null: list[bool] = field(default_factory=list)
    only_null: list[bool] = field(default_factory=list)
    only_nan: list[bool] = field(default_factory=list)

    def add(self, file: DataFile) -> None:
        """Add the statistics of a file."""
        values, nulls, nans = (
            (counts or {}).get(self.field_id)
            for counts in (file.value_counts, file.null_value_counts, file.nan_value_counts)
        )
        self.lows.append(self._parse_bound((file.lower_bounds or {}).get(self.field_id)))
        self.highs.append(self._parse_bound((file.upper_bounds or {}).get(self.field_id)))
        self.may_have_null.append(nulls != 0)
        self.only_null.append(values is not None and values == nulls)
        self.only_nan.append(values is not None and values == nans)

    def _parse_bound(self, written: bytes | None) -> Comparable | None:
        if written is None or not isinstance(self.kind, PrimitiveType):
            return None
        try:
            return to_comparable(self.kind, from_bytes(self.kind, written))
        except UNREADABLE:
            return None


@dataclass
class SpecFiles:
    """The data files of one partition spec."""

    spec_id: int
    columns: dict[str, ColumnStatistics]
    paths: list[str] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    partitions: list[tuple[object, ...]] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)

    def add(self, entry: ManifestEntry) -> None:
        """Add a file."""
        file = entry.data_file
        self.paths.append(file.file_path)
        self.bytes.append(file.file_size_in_bytes)
        self.rows.append(file.record_count)
        self.partitions.append(partition_values(file))
        self.sequences.append(entry.sequence_number or 0)
        for column in self.columns.values():
            column.add(file)


@dataclass
class TableFiles:
    """All data files and delete files, and the bytes of each column by field id."""

    specs: dict[int, SpecFiles] = field(default_factory=dict)
    deletes: list[DeleteFile] = field(default_factory=list)
    column_bytes: dict[int, int] = field(default_factory=dict)

    @property
    def files(self) -> int:
        """The number of data files."""
        return sum(len(spec.paths) for spec in self.specs.values())

    @property
    def bytes(self) -> int:
        """The bytes of the data files."""
        return sum(sum(spec.bytes) for spec in self.specs.values())

    @property
    def rows(self) -> int:
        """The rows of the data files, including rows that are marked as deleted."""
        return sum(sum(spec.rows) for spec in self.specs.values())

    def in_order(self) -> list[tuple[SpecFiles, int]]:
        """Return the files that have rows, each as its index in its spec, in the order of writing.

        A rewrite without a sort order leaves rows in that order.
        """
        every = [(spec, place) for spec in self.specs.values() for place, rows in enumerate(spec.rows) if rows]
        return sorted(every, key=lambda one: one[0].sequences[one[1]])

    def weights(self, spec: SpecFiles) -> npt.NDArray[np.float64]:
        """Return the bytes to read for each file of a spec: its own, and its part of the deletes that apply to it."""
        weights = np.array(spec.bytes, dtype=np.float64)
        if not self.deletes:
            return weights
        sequences, places = np.array(spec.sequences), FileLookup.of(spec.spec_id, spec.paths, spec.partitions)
        for delete in self.deletes:
            affected = places.of_delete(delete)
            affected = affected[sequences[affected] <= delete.sequence]
            weights[affected] += delete.bytes / max(1, len(affected))
        return weights


def read_table_files(table: Table, columns: Iterable[str]) -> TableFiles:
    """Read the files and the statistics of these columns from the manifests of the current snapshot."""
    found = TableFiles()
    known = _find_columns(table, columns)
    for entry in iterate_entries(table):
        spec_id = entry.data_file.spec_id
        if entry.data_file.content != DataFileContent.DATA:
            found.deletes.append(read_delete_file(table, entry, spec_id))
            continue
        if spec_id not in found.specs:
            statistics = {name: ColumnStatistics(kind, number) for name, (kind, number) in known.items()}
            found.specs[spec_id] = SpecFiles(spec_id, statistics)
        found.specs[spec_id].add(entry)
        for number, size in (entry.data_file.column_sizes or {}).items():
            found.column_bytes[number] = found.column_bytes.get(number, 0) + size
    return found


def _find_columns(table: Table, columns: Iterable[str]) -> dict[str, tuple[IcebergType, int]]:
    schema = table.schema()
    names = {name for name in columns if name in schema.column_names}
    fields = {name: schema.find_field(name) for name in sorted(names)}
    return {name: (one.field_type, one.field_id) for name, one in fields.items() if is_comparable(one.field_type)}


@dataclass(frozen=True)
class TableExtent:
    """Facts about the whole table: bytes, the target file size, the columns with bounds, and their ends.

    `lengths` has the columns with bounds, and the length in characters that bounds of text are cut to. `ends` has the
    positions of the smallest and largest value among the literals.
    """

    bytes: int
    target_bytes: int
    lengths: Mapping[str, int]
    ends: Mapping[str, tuple[int | None, int | None]]

    @classmethod
    def of(cls, table: Table, files: TableFiles, compiled: CompiledFilters, target_bytes: int) -> TableExtent:
        """Read the extent from a table's metadata and manifests."""
        lengths = find_bound_lengths(table.schema(), dict(table.properties))
        return cls(files.bytes, target_bytes, lengths, _find_ends(compiled, files))

    @property
    def files(self) -> int:
        """The number of files of the target size that hold the table's bytes."""
        return max(1, self.bytes // self.target_bytes)


def _find_ends(compiled: CompiledFilters, files: TableFiles) -> dict[str, tuple[int | None, int | None]]:
    """Return the positions of each column's minimum and maximum, over the files that have bounds of it."""
    found: dict[str, tuple[int | None, int | None]] = {}
    for name, tests in compiled.columns.items():
        statistics = [spec.columns[name] for spec in files.specs.values() if name in spec.columns]
        lows = [tests.cuts.place(low) for one in statistics for low in one.lows if low is not None]
        highs = [tests.cuts.place(high) for one in statistics for high in one.highs if high is not None]
        found[name] = (min(lows, default=None), max(highs, default=None))
    return found
