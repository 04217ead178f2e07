"""Arrow tables to Iceberg data files, without a JVM: the end of the Arrow lane.

What pyiceberg's own writer does (partition values, field ids, statistics) is done here for all partitions in one sort
instead of one filter a partition, and with what it leaves out: the sort order inside a file, bloom filters, row groups
sized in bytes. What of pyiceberg is private and needed is imported here, in `fields.py` or in `tables.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.locations import load_location_provider
from pyiceberg.typedef import Record

from neve.lake.encoding import dictionary_columns
from neve.lake.fields import conform, file_schema
from neve.lake.layout import Slice, lay_out, sorts_fully
from neve.model.columns import BLOOM_FILTER_PREFIX, TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES_DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionKey
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

Sieve = Callable[[Slice], Slice]

ROW_GROUP_BYTES = 128 * 1024 * 1024  # 128 MB in memory
ZSTD_LEVEL = 3
BLOOM_FALSE_POSITIVES = 0.01


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


def _write_slice(metadata: TableMetadata, io: FileIO, piece: Slice) -> Iterator[DataFile]:
    """The files of one partition: a new one is begun when the last has reached the target size."""
    rows = piece.rows
    group = max(1, min(rows.num_rows, ROW_GROUP_BYTES * rows.num_rows // max(rows.nbytes, 1)))
    target_size = int(metadata.properties.get(TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES_DEFAULT))
    start = 0
    while start < rows.num_rows:
        path = _new_path(metadata, piece.key)
        output = io.new_output(path)
        with output.create() as sink, pq.ParquetWriter(sink, rows.schema, **_options(metadata, rows, group)) as writer:
            while start < rows.num_rows and sink.tell() < target_size:
                writer.write_table(rows.slice(start, group), row_group_size=group)
                start += group
        yield _describe(metadata, piece.key, path, len(output), writer.writer.metadata)


def _new_path(metadata: TableMetadata, key: PartitionKey | None) -> str:
    provider = load_location_provider(table_location=metadata.location, table_properties=metadata.properties)
    return provider.new_data_location(f"{uuid.uuid4()}.parquet", key)


def _options(metadata: TableMetadata, rows: pa.Table, group: int) -> dict[str, object]:
    return {
        "compression": "zstd",
        "compression_level": ZSTD_LEVEL,
        "store_schema": False,
        "use_dictionary": dictionary_columns(rows),
        "write_page_index": True,
        "bloom_filter_options": {
            name: {"ndv": group, "fpp": BLOOM_FALSE_POSITIVES} for name in _bloom_columns(metadata, rows.schema)
        },
    }


def _bloom_columns(metadata: TableMetadata, schema: pa.Schema) -> list[str]:
    enabled = {
        name.removeprefix(BLOOM_FILTER_PREFIX)
        for name, value in metadata.properties.items()
        if name.startswith(BLOOM_FILTER_PREFIX) and value == "true"
    }
    return [name for name in schema.names if name in enabled]


def _describe(
    metadata: TableMetadata, key: PartitionKey | None, path: str, size: int, footer: pq.FileMetaData
) -> DataFile:
    schema = metadata.schema()
    statistics = data_file_statistics_from_parquet_metadata(
        footer,
        stats_columns=compute_statistics_plan(schema, metadata.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=key.partition if key else Record(),
        file_size_in_bytes=size,
        sort_order_id=metadata.default_sort_order_id if sorts_fully(schema, metadata.sort_order()) else None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )
