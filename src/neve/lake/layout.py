"""Which file a row belongs to: rows grouped by partition and sorted inside it, decided for whole columns at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import IdentityTransform

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Slice:
    """The rows of one partition."""

    key: PartitionKey | None
    rows: pa.Table


def lay_out(table: pa.Table, schema: Schema, spec: PartitionSpec, order: SortOrder) -> Iterator[Slice]:
    """The table cut into partitions, each sorted by the table's sort order."""
    if table.num_rows == 0:
        return
    values = _partition_values(table, schema, spec)
    partition, firsts = _combined(values, table.num_rows)
    index = sort_index(table, sort_columns(schema, order), first=(partition,))
    starts = np.flatnonzero(np.diff(partition[index], prepend=-1))
    ordered = table.take(pa.array(index))
    for start, end, first in zip(starts, [*starts[1:], table.num_rows], firsts, strict=True):
        key = _key([column[int(first)].as_py() for column in values], schema, spec)
        yield Slice(key, ordered.slice(start, end - start))


def sort_index(table: pa.Table, columns: Sequence[str], first: Sequence[Codes] = ()) -> Codes:
    """The order of rows that sorts them by columns, rising, nulls first; equal rows stay as they lie.

    What comes before the columns may be given as numbers.
    """
    keys = [*first, *(_ranks(table.column(name)) for name in columns)]
    index: Codes = np.lexsort(tuple(reversed(keys)))
    return index


def partition_key(row: pa.Table, schema: Schema, spec: PartitionSpec) -> PartitionKey | None:
    """The partition that the first row of a table belongs to."""
    first = row.slice(0, 1)
    return _key([column[0].as_py() for column in _partition_values(first, schema, spec)], schema, spec)


def partition_hashes(table: pa.Table, schema: Schema, spec: PartitionSpec) -> npt.NDArray[np.uint64]:
    """A number for each row that only its partition decides, the same in every process."""
    values = _partition_values(table, schema, spec)
    partition, firsts = _combined(values, table.num_rows)
    names = [repr([column[int(first)].as_py() for column in values]) for first in firsts]
    hashes = np.array([xxhash.xxh3_64_intdigest(name.encode()) for name in names], dtype=np.uint64)
    return hashes[partition]


def sort_columns(schema: Schema, order: SortOrder) -> list[str]:
    """The leading columns of a sort order that are sorted as they are, rising, nulls first."""
    names = []
    for field in order.fields:
        name = schema.find_column_name(field.source_id)
        rising = field.direction is SortDirection.ASC and field.null_order is NullOrder.NULLS_FIRST
        if name is None or "." in name or not rising or not isinstance(field.transform, IdentityTransform):
            break
        names.append(name)
    return names


def sorts_fully(schema: Schema, order: SortOrder) -> bool:
    """Whether `lay_out` sorts by the whole sort order, so that a file may say that it has it."""
    return len(sort_columns(schema, order)) == len(order.fields)


def _partition_values(table: pa.Table, schema: Schema, spec: PartitionSpec) -> list[pa.ChunkedArray]:
    columns = []
    for field in spec.fields:
        source = schema.find_field(field.source_id)
        values = table.column(schema.find_column_name(field.source_id))
        columns.append(field.transform.pyarrow_transform(source.field_type)(values))
    return columns


def _combined(columns: list[pa.ChunkedArray], rows: int) -> tuple[Codes, Codes]:
    """One number for each row's partition, and the first row of each partition in the order of the numbers."""
    combined = np.zeros(rows, dtype=np.int64)
    for column in columns:
        codes = _codes(column)
        combined = combined * (int(codes.max()) + 1) + codes
    _values, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
    return inverse, first


def _codes(column: pa.ChunkedArray | pa.Array) -> Codes:
    encoded = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = encoded.dictionary_encode(null_encoding="encode")
    codes: Codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _ranks(column: pa.ChunkedArray) -> Codes:
    """Numbers that sort as the column does, nulls first."""
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


def _key(values: list[object], schema: Schema, spec: PartitionSpec) -> PartitionKey | None:
    if spec.is_unpartitioned():
        return None
    fields = [PartitionFieldValue(field, value) for field, value in zip(spec.fields, values, strict=True)]
    return PartitionKey(field_values=fields, partition_spec=spec, schema=schema)
