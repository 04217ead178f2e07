"""Group rows by partition and sort them inside it, for whole columns at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey

from neve.lake.write.sort_columns import find_sort_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PartitionSlice:
    """The rows of one partition."""

    key: PartitionKey | None
    rows: pa.Table


def split_partitions(
    table: pa.Table, schema: Schema, spec: PartitionSpec, order: SortOrder
) -> Iterator[PartitionSlice]:
    """Split a table into partitions, each sorted by the table's sort order."""
    if table.num_rows == 0:
        return
    values = _partition_values(table, schema, spec)
    partition, firsts = _combine_codes(values, table.num_rows)
    index = find_sort_index(table, find_sort_columns(schema, order), first=(partition,))
    starts = np.flatnonzero(np.diff(partition[index], prepend=-1))
    ordered = table.take(pa.array(index))
    for start, end, first in zip(starts, [*starts[1:], table.num_rows], firsts, strict=True):
        key = _make_partition_key([column[int(first)].as_py() for column in values], schema, spec)
        yield PartitionSlice(key, ordered.slice(start, end - start))


def find_sort_index(table: pa.Table, columns: Sequence[str], first: Sequence[Codes] = ()) -> Codes:
    """Return the row order that sorts by columns, ascending, nulls first. Equal rows keep their order.

    `first` are numeric sort keys that precede the columns.
    """
    keys = [*first, *(_rank_column(table.column(name)) for name in columns)]
    index: Codes = np.lexsort(tuple(reversed(keys)))
    return index


def find_partition_key(row: pa.Table, schema: Schema, spec: PartitionSpec) -> PartitionKey | None:
    """Return the partition of the first row of a table."""
    first = row.slice(0, 1)
    return _make_partition_key([column[0].as_py() for column in _partition_values(first, schema, spec)], schema, spec)


def hash_partitions(table: pa.Table, schema: Schema, spec: PartitionSpec) -> npt.NDArray[np.uint64]:
    """Return a hash of each row's partition, the same in every process."""
    values = _partition_values(table, schema, spec)
    partition, firsts = _combine_codes(values, table.num_rows)
    names = [repr([column[int(first)].as_py() for column in values]) for first in firsts]
    hashes = np.array([xxhash.xxh3_64_intdigest(name.encode()) for name in names], dtype=np.uint64)
    return hashes[partition]


def _partition_values(table: pa.Table, schema: Schema, spec: PartitionSpec) -> list[pa.ChunkedArray]:
    columns = []
    for field in spec.fields:
        source = schema.find_field(field.source_id)
        values = table.column(schema.find_column_name(field.source_id))
        columns.append(field.transform.pyarrow_transform(source.field_type)(values))
    return columns


def _combine_codes(columns: list[pa.ChunkedArray], rows: int) -> tuple[Codes, Codes]:
    """Return a partition number for each row, and the first row of each partition in the order of the numbers."""
    combined = np.zeros(rows, dtype=np.int64)
    for column in columns:
        codes = _encode_column(column)
        combined = combined * (int(codes.max()) + 1) + codes
    _values, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
    return inverse, first


def _encode_column(column: pa.ChunkedArray | pa.Array) -> Codes:
    encoded = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = encoded.dictionary_encode(null_encoding="encode")
    codes: Codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _rank_column(column: pa.ChunkedArray) -> Codes:
    """Return ranks that sort like the column, nulls first."""
    plain = column.combine_chunks()
    if pa.types.is_integer(plain.type) or pa.types.is_timestamp(plain.type):
        numbers: Codes = plain.cast(pa.int64()).fill_null(np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
        return numbers
    encoded = plain.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.where(indices < 0, -1, rank[indices] if len(rank) else -1)


def _make_partition_key(values: list[object], schema: Schema, spec: PartitionSpec) -> PartitionKey | None:
    if spec.is_unpartitioned():
        return None
    fields = [PartitionFieldValue(field, value) for field, value in zip(spec.fields, values, strict=True)]
    return PartitionKey(field_values=fields, partition_spec=spec, schema=schema)
