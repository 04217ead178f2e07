"""The data files of a table's current snapshot, with what its manifests say of some columns.

Read manifest by manifest, and only what is asked for is kept of each file: a table of many files takes little memory.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFileContent
from pyiceberg.types import PrimitiveType

from neve.autopilot.estimate.deletes import DeleteFile, Places, delete_of, partition_values
from neve.autopilot.estimate.plain import Plain, is_known, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

# Bounds that were written before a column was widened have fewer bytes than its type now.
UNREADABLE = (struct.error, TypeError, ValueError)


@dataclass
class Told:
    """What manifests say of one column, file by file; `None` where they say nothing."""

    kind: IcebergType
    field_id: int
    lows: list[Plain | None] = field(default_factory=list)
    highs: list[Plain | None] = field(default_factory=list)
    may_have_null: list[bool] = field(default_factory=list)
    only_null: list[bool] = field(default_factory=list)
    only_nan: list[bool] = field(default_factory=list)

    def add(self, file: DataFile) -> None:
        """Take in what is said of a file."""
        values, nulls, nans = (
            (counts or {}).get(self.field_id)
            for counts in (file.value_counts, file.null_value_counts, file.nan_value_counts)
        )
        self.lows.append(self._bound((file.lower_bounds or {}).get(self.field_id)))
        self.highs.append(self._bound((file.upper_bounds or {}).get(self.field_id)))
        self.may_have_null.append(nulls != 0)
        self.only_null.append(values is not None and values == nulls)
        self.only_nan.append(values is not None and values == nans)

    def _bound(self, written: bytes | None) -> Plain | None:
        if written is None or not isinstance(self.kind, PrimitiveType):
            return None
        try:
            return plain(self.kind, from_bytes(self.kind, written))
        except UNREADABLE:
            return None


@dataclass
class SpecFiles:
    """The data files of one partition spec."""

    spec_id: int
    columns: dict[str, Told]
    paths: list[str] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    partitions: list[tuple[object, ...]] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)

    def add(self, entry: ManifestEntry) -> None:
        """Take in a file."""
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
    """All data files and delete files, and the bytes of each column by its field's id."""

    specs: dict[int, SpecFiles] = field(default_factory=dict)
    deletes: list[DeleteFile] = field(default_factory=list)
    column_bytes: dict[int, int] = field(default_factory=dict)

    @property
    def files(self) -> int:
        """How many data files there are."""
        return sum(len(spec.paths) for spec in self.specs.values())

    @property
    def bytes(self) -> int:
        """The bytes of the data files."""
        return sum(sum(spec.bytes) for spec in self.specs.values())

    @property
    def rows(self) -> int:
        """The rows of the data files, those among them that are marked as deleted."""
        return sum(sum(spec.rows) for spec in self.specs.values())

    def in_order(self) -> list[tuple[SpecFiles, int]]:
        """The files that have rows, each as its place in its spec, as they were written.

        A rewrite that sorts by nothing leaves rows in that order.
        """
        every = [(spec, place) for spec in self.specs.values() for place, rows in enumerate(spec.rows) if rows]
        return sorted(every, key=lambda one: one[0].sequences[one[1]])

    def weights(self, spec: SpecFiles) -> npt.NDArray[np.float64]:
        """What reading each file of a spec takes, in bytes: its own, and its part of the deletes that apply to it."""
        weights = np.array(spec.bytes, dtype=np.float64)
        if not self.deletes:
            return weights
        sequences, places = np.array(spec.sequences), Places.of(spec.spec_id, spec.paths, spec.partitions)
        for delete in self.deletes:
            meant = places.of_delete(delete)
            meant = meant[sequences[meant] <= delete.sequence]
            weights[meant] += delete.bytes / max(1, len(meant))
        return weights


def table_files(table: Table, columns: Iterable[str]) -> TableFiles:
    """What the manifests of the current snapshot say of the files and of these columns."""
    found = TableFiles()
    known = _known_columns(table, columns)
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        spec_id = manifest.partition_spec_id
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.data_file.content != DataFileContent.DATA:
                found.deletes.append(delete_of(table, entry, spec_id))
                continue
            if spec_id not in found.specs:
                told = {name: Told(kind, number) for name, (kind, number) in known.items()}
                found.specs[spec_id] = SpecFiles(spec_id, told)
            found.specs[spec_id].add(entry)
            for number, size in (entry.data_file.column_sizes or {}).items():
                found.column_bytes[number] = found.column_bytes.get(number, 0) + size
    return found


def _known_columns(table: Table, columns: Iterable[str]) -> dict[str, tuple[IcebergType, int]]:
    schema = table.schema()
    names = {name for name in columns if name in schema.column_names}
    fields = {name: schema.find_field(name) for name in sorted(names)}
    return {name: (one.field_type, one.field_id) for name, one in fields.items() if is_known(one.field_type)}
