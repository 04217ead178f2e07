"""Write Arrow tables to data files of an Iceberg table, and position deletes to delete files, without a JVM.

pyiceberg's own writer filters once for each partition. This one sorts once for all partitions, and adds the sort
order inside a file, bloom filters and row groups sized in bytes. Private parts of pyiceberg are imported only in
`data_file_writer.py`, `file_schema.py` and `tables.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyiceberg.table.locations import load_location_provider

from neve.lake.read.file_values import PATH_ID
from neve.lake.write.data_file_json import make_minimal_json
from neve.lake.write.data_file_writer import DataFileOptions, DataFileWriter
from neve.lake.write.file_schema import FIELD_ID, build_file_schema, conform_to_schema
from neve.lake.write.layout import PartitionSlice, split_partitions
from neve.lake.write.sort_columns import is_fully_sorted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from neve.lake.write.data_file_json import DataFileJson


SliceFilter = Callable[[PartitionSlice], PartitionSlice]


@dataclass(frozen=True)
class Target:
    """Table metadata for a writing task, without a connection to the catalog. Can be pickled."""

    metadata: TableMetadata
    io_properties: dict[str, str]

    @classmethod
    def of(cls, table: Table) -> Target:
        """Return the target of a table's current state, without its history, which grows with every commit."""
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


def write_files(target: Target, table: pa.Table, sieve: SliceFilter | None = None) -> list[DataFile]:
    """Write a table's rows as data files of the target. They are invisible until they are committed.

    A sieve gets the rows of each partition before they are written, and returns the rows to keep.
    """
    metadata, io = target.metadata, target.io
    rows = conform_to_schema(table, build_file_schema(metadata.schema(), table.schema))
    slices = split_partitions(rows, metadata.schema(), metadata.spec(), metadata.sort_order())
    if sieve is not None:
        slices = map(sieve, slices)
    return [file for piece in slices for file in _write_slice(metadata, io, piece)]


def _write_slice(metadata: TableMetadata, io: FileIO, piece: PartitionSlice) -> list[DataFile]:
    """Write the files of one partition. A new one starts when the last has reached the target size."""
    fully = is_fully_sorted(metadata.schema(), metadata.sort_order())
    order = metadata.default_sort_order_id if fully else None
    with DataFileWriter(metadata, io, piece.key, DataFileOptions(order)) as writer:
        writer.write(piece.rows)
    return writer.files


POSITION_ID = 2147483545  # reserved by Iceberg, like the id of the path
POSITION_DELETE_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID: str(PATH_ID).encode()}),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(POSITION_ID).encode()}),
    ]
)


def write_position_deletes(
    target: Target, path: str, positions: npt.NDArray[np.int64], spec_id: int, partition: Sequence[object]
) -> DataFileJson:
    """Mark rows of a data file as deleted, by their ascending positions. It takes effect at the commit."""
    provider = load_location_provider(
        table_location=target.metadata.location, table_properties=target.metadata.properties
    )
    place = provider.new_data_location(f"{uuid.uuid4()}-deletes.parquet", None)
    paths = pa.DictionaryArray.from_arrays(pa.array([0] * len(positions), pa.int32()), [path]).cast(pa.string())
    rows = pa.table([paths, pa.array(positions)], schema=POSITION_DELETE_SCHEMA)
    output = target.io.new_output(place)
    with output.create() as sink:
        pq.write_table(rows, sink, compression="zstd", store_schema=False)
    name = path.encode().hex().upper()
    return {
        **make_minimal_json(place, "parquet", spec_id, partition, len(output), len(positions)),
        "content": "position-deletes",
        "referenced-data-file": path,
        "lower-bounds": {"keys": [PATH_ID], "values": [name]},
        "upper-bounds": {"keys": [PATH_ID], "values": [name]},
    }
