"""Write the rows of one partition to data files, one row group at a time, and start a new file at the target size."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.locations import load_location_provider
from pyiceberg.typedef import Record

from neve.lake.storage.filesystem import unwrap_output
from neve.lake.write.encoding import (
    DELTA_COLUMNS,
    choose_dictionary_columns,
    list_single_value_leaves,
    shrink_dictionaries,
)
from neve.model.properties import BLOOM_FILTER_PREFIX, TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES_DEFAULT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from types import TracebackType

    from pyiceberg.io import FileIO, OutputFile, OutputStream
    from pyiceberg.partitioning import PartitionKey
    from pyiceberg.table.metadata import TableMetadata

ROW_GROUP_BYTES = 128 * 1024 * 1024  # 128 MB in memory
COMPRESSION_CODEC = "write.parquet.compression-codec"
COMPRESSION_CODEC_DEFAULT = "zstd"
COMPRESSION_LEVEL = "write.parquet.compression-level"
ZSTD_LEVEL_DEFAULT = 3
BLOOM_FALSE_POSITIVES = 0.01
CODEC_NAMES = {"uncompressed": "none", "lz4": "lz4", "gzip": "gzip", "snappy": "snappy", "zstd": "zstd"}


@dataclass(frozen=True)
class DataFileOptions:
    """Options of data files.

    A file ends at the target size in bytes (0: that of the table), or at `rows_per_file` if that is set. The values
    decide which leaves get a dictionary, unless `dictionaries` names them.
    """

    sort_order_id: int | None
    target_bytes: int = 0
    rows_per_file: int = 0
    dictionaries: Collection[str] = ()


class DataFileWriter:
    """Writer of rows in pieces of any size. Memory contains one row group, independent of the size of the files."""

    def __init__(self, metadata: TableMetadata, io: FileIO, key: PartitionKey | None, shape: DataFileOptions) -> None:
        self.files: list[DataFile] = []
        self._metadata, self._io, self._key = metadata, io, key
        self._shape = shape
        of_table = metadata.properties.get(TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES_DEFAULT)
        self._target_bytes = shape.target_bytes or int(of_table)
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._open: _OpenFile | None = None

    def __enter__(self) -> DataFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
            self._end_file()
        elif self._open is not None:
            self._open.abandon()

    def write(self, rows: pa.Table) -> None:
        """Add rows. They are written when a row group is full."""
        while rows.num_rows:
            piece = rows.slice(0, self._room(rows))
            rows = rows.slice(piece.num_rows)
            self._held.append(piece)
            self._held_bytes += piece.nbytes
            if self._held_bytes >= ROW_GROUP_BYTES:
                self._flush()
            if self._is_full():
                self._flush()
                self._end_file()

    @property
    def paths(self) -> list[str]:
        """The paths of all files that were started."""
        unfinished = [self._open.path] if self._open else []
        return [*(file.file_path for file in self.files), *unfinished]

    def _room(self, rows: pa.Table) -> int:
        """Return the number of these rows that fit into the current row group."""
        row_bytes = max(1, rows.nbytes // rows.num_rows)
        room = max(1, (ROW_GROUP_BYTES - self._held_bytes) // row_bytes + 1)
        if self._shape.rows_per_file:
            room = min(room, self._shape.rows_per_file - self._rows_in_file())
        return int(min(room, rows.num_rows))

    def _rows_in_file(self) -> int:
        return (self._open.rows if self._open else 0) + sum(int(piece.num_rows) for piece in self._held)

    def _is_full(self) -> bool:
        if self._shape.rows_per_file and self._rows_in_file() >= self._shape.rows_per_file:
            return True
        return self._open is not None and self._open.bytes >= self._target_bytes

    def _flush(self) -> None:
        if not self._held:
            return
        # Rows with dictionaries are written with them, if all have the same one and no other rows use most of it.
        group = shrink_dictionaries(pa.concat_tables(self._held).unify_dictionaries())
        self._held, self._held_bytes = [], 0
        if self._open is None:
            self._open = _OpenFile(self._metadata, self._io, self._key, group, self._shape.dictionaries)
        self._open.write(group)

    def _end_file(self) -> None:
        if self._open is not None:
            path, size, footer = self._open.close()
            self.files.append(
                describe_data_file(self._metadata, self._key, path, size, footer, self._shape.sort_order_id)
            )
            self._open = None


class _OpenFile:
    """One Parquet file that is being written."""

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        key: PartitionKey | None,
        first: pa.Table,
        dictionaries: Collection[str],
    ) -> None:
        self.path = _new_path(metadata, key)
        self.rows = 0
        self._output: OutputFile = io.new_output(self.path)
        self._sink: OutputStream = self._output.create()
        self._writer = pq.ParquetWriter(
            unwrap_output(self._sink), first.schema, **_parquet_options(metadata, first, dictionaries)
        )

    @property
    def bytes(self) -> int:
        """The number of bytes written."""
        return int(self._sink.tell())

    def write(self, group: pa.Table) -> None:
        self._writer.write_table(group, row_group_size=group.num_rows)
        self.rows += group.num_rows

    def close(self) -> tuple[str, int, pq.FileMetaData]:
        self._writer.close()
        self._sink.close()
        return self.path, len(self._output), self._writer.writer.metadata

    def abandon(self) -> None:
        """Close the handle. The file is not referenced, and is removed with the other orphans of the run."""
        self._sink.close()


def _new_path(metadata: TableMetadata, key: PartitionKey | None) -> str:
    provider = load_location_provider(table_location=metadata.location, table_properties=metadata.properties)
    return provider.new_data_location(f"{uuid.uuid4()}.parquet", key)


def _parquet_options(metadata: TableMetadata, rows: pa.Table, dictionaries: Collection[str]) -> dict[str, object]:
    codec = CODEC_NAMES.get(metadata.properties.get(COMPRESSION_CODEC, COMPRESSION_CODEC_DEFAULT), "zstd")
    level = metadata.properties.get(COMPRESSION_LEVEL) or (ZSTD_LEVEL_DEFAULT if codec == "zstd" else None)
    deltas = [name for name in DELTA_COLUMNS if name in rows.schema.names]
    chosen = list(dictionaries) or choose_dictionary_columns(rows)
    return {
        "compression": codec,
        "compression_level": int(level) if level is not None else None,
        "store_schema": False,
        "store_decimal_as_integer": True,  # as Iceberg requires
        "write_statistics": list_single_value_leaves(rows.schema),
        "use_dictionary": [name for name in chosen if name not in deltas],
        "column_encoding": dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
        "write_page_index": True,
        "bloom_filter_options": {
            name: {"ndv": rows.num_rows, "fpp": BLOOM_FALSE_POSITIVES} for name in _bloom_columns(metadata, rows.schema)
        },
    }


def _bloom_columns(metadata: TableMetadata, schema: pa.Schema) -> list[str]:
    enabled = {
        name.removeprefix(BLOOM_FILTER_PREFIX)
        for name, value in metadata.properties.items()
        if name.startswith(BLOOM_FILTER_PREFIX) and value == "true"
    }
    return [name for name in schema.names if name in enabled]


def describe_data_file(
    metadata: TableMetadata,
    key: PartitionKey | None,
    path: str,
    size: int,
    footer: pq.FileMetaData,
    sort_order_id: int | None,
) -> DataFile:
    """Return the manifest entry of a file, with counts and bounds of the columns that the table keeps them for."""
    schema = metadata.schema()
    ids = parquet_path_to_id_mapping(schema)
    statistics = data_file_statistics_from_parquet_metadata(
        footer, stats_columns=compute_statistics_plan(schema, metadata.properties), parquet_column_mapping=ids
    ).to_serialized_dict()
    for field_id in _find_columns_without_bounds(footer, ids):
        statistics["lower_bounds"].pop(field_id, None)
        statistics["upper_bounds"].pop(field_id, None)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=key.partition if key else Record(),
        file_size_in_bytes=size,
        sort_order_id=sort_order_id,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics,
    )


def _find_columns_without_bounds(footer: pq.FileMetaData, ids: Mapping[str, int]) -> set[int]:
    """Return the columns with values but without bounds in a row group: Parquet has no bounds of very long values.

    pyiceberg uses the bounds of the other row groups for the whole file, so readers would skip existing rows.
    """
    found = set()
    for group in (footer.row_group(number) for number in range(footer.num_row_groups)):
        for column in (group.column(number) for number in range(group.num_columns)):
            statistics = column.statistics
            has_values = (
                statistics is None or not statistics.has_null_count or statistics.null_count < column.num_values
            )
            if has_values and (statistics is None or not statistics.has_min_max) and column.path_in_schema in ids:
                found.add(ids[column.path_in_schema])
    return found
