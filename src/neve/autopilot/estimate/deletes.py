"""Delete files, and the data files that they are about: whoever reads those reads the deletes as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pyiceberg.manifest import DataFileContent

from neve.lake.manifest_sources import is_unpartitioned
from neve.lake.position_deletes import PATH_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.table import Table


@dataclass(frozen=True)
class DeleteFile:
    """A file that marks rows of others: of one, of a partition, or of the whole table."""

    bytes: int
    spec_id: int
    partition: tuple[object, ...]
    sequence: int
    path: str | None
    is_everywhere: bool


@dataclass(frozen=True)
class Places:
    """Where the files of a spec are found by path and by partition."""

    spec_id: int
    everywhere: npt.NDArray[np.intp]
    by_path: dict[str, int]
    by_partition: dict[tuple[object, ...], list[int]]

    @classmethod
    def of(cls, spec_id: int, paths: Sequence[str], partitions: Sequence[tuple[object, ...]]) -> Places:
        """The files of a spec, by their paths and partition values in one order."""
        by_partition: dict[tuple[object, ...], list[int]] = {}
        for place, values in enumerate(partitions):
            by_partition.setdefault(values, []).append(place)
        by_path = {path: place for place, path in enumerate(paths)}
        return cls(spec_id, np.arange(len(paths)), by_path, by_partition)

    def of_delete(self, delete: DeleteFile) -> npt.NDArray[np.intp]:
        """The files that a delete may be about, whenever they were written."""
        if delete.path is not None:
            found = [self.by_path[delete.path]] if delete.path in self.by_path else []
        elif delete.is_everywhere:
            return self.everywhere
        else:
            found = self.by_partition.get(delete.partition, []) if delete.spec_id == self.spec_id else []
        return np.array(found, dtype=np.intp)


def delete_of(table: Table, entry: ManifestEntry, spec_id: int) -> DeleteFile:
    """A delete file of a manifest."""
    file = entry.data_file
    low, high = ((bounds or {}).get(PATH_ID) for bounds in (file.lower_bounds, file.upper_bounds))
    is_equality = file.content == DataFileContent.EQUALITY_DELETES
    return DeleteFile(
        bytes=file.file_size_in_bytes,
        spec_id=spec_id,
        partition=partition_values(file),
        sequence=entry.sequence_number or 0,
        path=low.decode() if low is not None and low == high else None,
        is_everywhere=is_equality and is_unpartitioned(table.specs()[spec_id]),
    )


def partition_values(file: DataFile) -> tuple[object, ...]:
    """The values of a file's partition, in the order of its spec."""
    return tuple(file.partition[place] for place in range(len(file.partition)))
