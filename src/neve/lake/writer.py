"""Arrow tables to Iceberg data files, without a JVM: the end of the Arrow lane.

What pyiceberg's own writer does (partition values, field ids, statistics) is done here for all partitions in one sort
instead of one filter a partition, and with what it leaves out: the sort order inside a file, bloom filters, row groups
sized in bytes. What of pyiceberg is private and needed is imported in `rolling.py`, `fields.py` or `tables.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.io import load_file_io

from neve.lake.fields import conform, file_schema
from neve.lake.layout import Slice, lay_out, sorts_fully
from neve.lake.rolling import RollingWriter, Shape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

Sieve = Callable[[Slice], Slice]


@dataclass(frozen=True)
class Target:
    """A table as a task needs it: what to write and where, without a connection to the catalog. It pickles."""

    metadata: TableMetadata
    io_properties: dict[str, str]

    @classmethod
    def of(cls, table: Table) -> Target:
        """The target that a table is now, without its history, which grows with every commit."""
        history: dict[str, object] = {
            "snapshots": [],
            "snapshot_log": [],
            "metadata_log": [],
            "refs": {},
            "current_snapshot_id": None,
        }
        return cls(table.metadata.model_copy(update=history), dict(table.io.properties))

    @property
    def io(self) -> FileIO:
        """Access to the table's files."""
        return load_file_io(self.io_properties, self.metadata.location)


def write_files(target: Target, table: pa.Table, sieve: Sieve | None = None) -> list[DataFile]:
    """Write a table's rows as data files of the target; nothing is visible before they are committed.

    A sieve sees the rows of each partition before they are written, and gives back those that are to be kept.
    """
    metadata, io = target.metadata, target.io
    rows = conform(table, file_schema(metadata.schema(), table.schema))
    slices = lay_out(rows, metadata.schema(), metadata.spec(), metadata.sort_order())
    if sieve is not None:
        slices = map(sieve, slices)
    return [file for piece in slices for file in _write_slice(metadata, io, piece)]


def _write_slice(metadata: TableMetadata, io: FileIO, piece: Slice) -> list[DataFile]:
    """The files of one partition: a new one is begun when the last has reached the target size."""
    fully = sorts_fully(metadata.schema(), metadata.sort_order())
    order = metadata.default_sort_order_id if fully else None
    with RollingWriter(metadata, io, piece.key, Shape(order)) as writer:
        writer.write(piece.rows)
    return writer.files
