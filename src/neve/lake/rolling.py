"""The rows of one partition, written as one data file after another, a row group at a time."""

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

from neve.lake.dictionaries import fitted
from neve.lake.encoding import dictionary_columns, single_leaves
from neve.lake.store_files import direct
from neve.model.columns import BLOOM_FILTER_PREFIX, TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES_DEFAULT

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
class Shape:
    """What files are to be like.

    A file ends when it has reached the target size in bytes (0: that of the table), or `rows_per_file` where that is
    given. Which leaves get a dictionary is told by their values, where `dictionaries` does not name them.
    """

    sort_order_id: int | None
    target_bytes: int = 0
    rows_per_file: int = 0
    dictionaries: Collection[str] = ()


class RollingWriter:
    """Takes rows in pieces of any size; memory holds one row group, whatever the files become."""

    def __init__(self, metadata: TableMetadata, io: FileIO, key: PartitionKey | None, shape: Shape) -> None:
        self.files: list[DataFile] = []
        self._metadata, self._io, self._key = metadata, io, key
        self._shape = shape
        of_table = metadata.properties.get(TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES_DEFAULT)
        self._target_bytes = shape.target_bytes or int(of_table)
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._open: _OpenFile | None = None

    def __enter__(self) -> RollingWriter:
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
        """Add rows; they reach a file when a row group is full."""
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
        """Every file that was begun."""
        begun = [self._open.path] if self._open else []
        return [*(file.file_path for file in self.files), *begun]

    def _room(self, rows: pa.Table) -> int:
        """How many of these rows go into the current row group."""
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
        # Rows that come with dictionaries are written with them, where all have the same, and no others use most of it.
        group = fitted(pa.concat_tables(self._held).unify_dictionaries())
        self._held, self._held_bytes = [], 0
        if self._open is None:
            self._open = _OpenFile(self._metadata, self._io, self._key, group, self._shape.dictionaries)
        self._open.write(group)

    def _end_file(self) -> None:
        if self._open is not None:
            path, size, footer = self._open.close()
            self.files.append(describe(self._metadata, self._key, path, size, footer, self._shape.sort_order_id))
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
        self._writer = pq.ParquetWriter(direct(self._sink), first.schema, **_options(metadata, first, dictionaries))

    @property
    def bytes(self) -> int:
        """What has been written."""
        return int(self._sink.tell())

    def write(self, group: pa.Table) -> None:
        self._writer.write_table(group, row_group_size=group.num_rows)
        self.rows += group.num_rows

    def close(self) -> tuple[str, int, pq.FileMetaData]:
        self._writer.close()
        self._sink.close()
        return self.path, len(self._output), self._writer.writer.metadata

    def abandon(self) -> None:
        """Let go of the handle; what was written is nobody's and is removed with the run's other leavings."""
        self._sink.close()


def _new_path(metadata: TableMetadata, key: PartitionKey | None) -> str:
    provider = load_location_provider(table_location=metadata.location, table_properties=metadata.properties)
    return provider.new_data_location(f"{uuid.uuid4()}.parquet", key)


def _options(metadata: TableMetadata, rows: pa.Table, dictionaries: Collection[str]) -> dict[str, object]:
    codec = CODEC_NAMES.get(metadata.properties.get(COMPRESSION_CODEC, COMPRESSION_CODEC_DEFAULT), "zstd")
    level = metadata.properties.get(COMPRESSION_LEVEL) or (ZSTD_LEVEL_DEFAULT if codec == "zstd" else None)
    return {
        "compression": codec,
        "compression_level": int(level) if level is not None else None,
        "store_schema": False,
        "store_decimal_as_integer": True,  # as Iceberg wants it
        "write_statistics": single_leaves(rows.schema),
        "use_dictionary": list(dictionaries) or dictionary_columns(rows),
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


def describe(
    metadata: TableMetadata,
    key: PartitionKey | None,
    path: str,
    size: int,
    footer: pq.FileMetaData,
    sort_order_id: int | None,
) -> DataFile:
    """The file as a manifest has it: counts and bounds of the columns that the table keeps them for."""
    schema = metadata.schema()
    ids = parquet_path_to_id_mapping(schema)
    statistics = data_file_statistics_from_parquet_metadata(
        footer, stats_columns=compute_statistics_plan(schema, metadata.properties), parquet_column_mapping=ids
    ).to_serialized_dict()
    for field_id in _unbounded(footer, ids):
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


def _unbounded(footer: pq.FileMetaData, ids: Mapping[str, int]) -> set[int]:
    """The columns that some row group has values of, but no bounds: Parquet keeps none of very long values.

    pyiceberg takes the bounds of the other row groups for those of the file: readers would skip rows that are there.
    """
    found = set()
    for group in (footer.row_group(number) for number in range(footer.num_row_groups)):
        for column in (group.column(number) for number in range(group.num_columns)):
            told = column.statistics
            has_values = told is None or not told.has_null_count or told.null_count < column.num_values
            if has_values and (told is None or not told.has_min_max) and column.path_in_schema in ids:
                found.add(ids[column.path_in_schema])
    return found
