"""Which files mark rows of which data files as deleted, as the Iceberg specification says."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFileContent, FileFormat

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.query.scan.manifests import Entry

PATH_ID = 2147483546  # column of a position-delete file that names the data file
EQUALITY = "rows are deleted by their values, which only Spark can apply"
VECTORS = "rows are deleted by deletion vectors, which only Spark can apply"
FOREIGN = "rows are deleted by files that are not Parquet, which only Spark can apply"


class Deletes:
    """Position-delete files, found by the data file that they are about or else by its partition."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._by_path: dict[str, list[Entry]] = defaultdict(list)
        self._by_partition: dict[tuple[int, tuple[Any, ...]], list[Entry]] = defaultdict(list)
        self.only_spark = ""
        for entry in entries:
            self.only_spark = self.only_spark or _objection(entry)
            lower, upper = _path_bounds(entry)
            if lower is not None and lower == upper:
                self._by_path[lower.decode()].append(entry)
            else:
                self._by_partition[entry.spec_id, entry.partition].append(entry)

    def of(self, data: Entry) -> tuple[str, ...]:
        """The delete files that may be about a data file: none is older than it."""
        about = self._by_path.get(data.file_path, ()), self._by_partition.get((data.spec_id, data.partition), ())
        return tuple(
            delete.file_path
            for found in about
            for delete in found
            if delete.sequence >= data.sequence and _may_name(delete, data.file_path.encode())
        )


def _objection(entry: Entry) -> str:
    if entry.content == DataFileContent.EQUALITY_DELETES:
        return EQUALITY
    if entry.is_deletion_vector:
        return VECTORS
    return "" if entry.file_format == FileFormat.PARQUET else FOREIGN


def _path_bounds(entry: Entry) -> tuple[bytes | None, bytes | None]:
    return entry.lower_bounds.get(PATH_ID), entry.upper_bounds.get(PATH_ID)


def _may_name(delete: Entry, path: bytes) -> bool:
    lower, upper = _path_bounds(delete)
    return (lower is None or lower <= path) and (upper is None or path <= upper)
