"""Write results as JSON lines, CSV, Parquet or Arrow, batch by batch, so that a large result needs little memory."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORMATS = ("table", "jsonl", "csv", "parquet", "arrow")


def write_result(reader: pa.RecordBatchReader, form: str, sink: BinaryIO) -> int:
    """Write all rows and return their number."""
    return _WRITERS[form](reader, sink)


def to_json_value(value: Any, kind: pa.DataType | None = None) -> Any:  # noqa: PLR0911 - one way out for each type
    r"""Convert a value to JSON: ids as hex, times as RFC 3339, maps as objects, numbers that JSON lacks as text.

    >>> to_json_value(b"\x01\xff"), to_json_value([], pa.map_(pa.string(), pa.string())), to_json_value(float("inf"))
    ('01ff', {}, 'Infinity')
    """
    if kind is not None and pa.types.is_map(kind) and value is not None:
        return {str(key): to_json_value(item, kind.item_type) for key, item in value}
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _NON_FINITE[str(value)]
        case bytes():
            return value.hex()
        case Decimal():
            return int(value) if value == value.to_integral_value() else str(value)  # a float would not be exact
        case [(_, _), *_] if kind is None and all(isinstance(item, tuple) for item in value):
            return {str(key): to_json_value(item) for key, item in value}
        case list():
            inner = kind.value_type if kind is not None and hasattr(kind, "value_type") else None
            return [to_json_value(item, inner) for item in value]
        case dict():
            return {key: to_json_value(item, _field_type(kind, key)) for key, item in value.items()}
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def to_json_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Convert the values of a column to JSON. A struct without names, as `row(…)` makes it, is a list.

    >>> to_json_values(pa.StructArray.from_arrays([pa.array([1]), pa.array(["a"])], names=["", ""]))
    [[1, 'a']]
    """
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in to_json_values(chunk)]
    if not has_unnamed(column.type):
        return [to_json_value(value, column.type) for value in column.to_pylist()]
    return _unnamed_values(column)


def _unnamed_values(array: pa.Array) -> list[Any]:
    """Convert an array that has structs without names within it, which Arrow can't convert to Python."""
    kind, is_there = array.type, array.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        children = [to_json_values(child) for child in array.flatten()]
        rows = zip(*children, strict=True)
        found = [list(row) if _is_unnamed(kind) else dict(zip(kind.names, row, strict=True)) for row in rows]
    elif pa.types.is_map(kind):
        keys, items, ends = to_json_values(array.keys), to_json_values(array.items), array.offsets.to_pylist()
        pairs = [(str(key), item) for key, item in zip(keys, items, strict=True)]
        found = [dict(pairs[start:end]) for start, end in pairwise(ends)]
    else:
        inner, ends = to_json_values(array.values), array.offsets.to_pylist()
        found = [inner[start:end] for start, end in pairwise(ends)]
    return [value if there else None for value, there in zip(found, is_there, strict=True)]


def _is_unnamed(kind: pa.StructType) -> bool:
    return kind.num_fields > 0 and (len(set(kind.names)) < kind.num_fields or "" in kind.names)


def has_unnamed(kind: pa.DataType) -> bool:
    """Return whether a type has a struct without names, or with a name twice, within it."""
    if pa.types.is_struct(kind):
        return _is_unnamed(kind) or any(has_unnamed(field.type) for field in kind)
    if pa.types.is_map(kind):
        return has_unnamed(kind.key_type) or has_unnamed(kind.item_type)
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and has_unnamed(kind.value_type)


_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _field_type(kind: pa.DataType | None, name: str) -> pa.DataType | None:
    return kind.field(name).type if kind is not None and pa.types.is_struct(kind) else None


def distinct_names(names: list[str]) -> list[str]:
    """Append a number to each name that occurred before, as in `SELECT a.*, b.*`.

    >>> distinct_names(["x", "y", "x"])
    ['x', 'y', 'x_2']
    """
    return [
        name if names.index(name) == place else f"{name}_{names[:place].count(name) + 1}"
        for place, name in enumerate(names)
    ]


def _jsonl(reader: pa.RecordBatchReader, sink: BinaryIO) -> int:
    names = distinct_names(reader.schema.names)
    rows = 0
    for batch in reader:
        columns = [to_json_values(column) for column in batch.columns]
        for values in zip(*columns, strict=True):
            sink.write(json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False).encode() + b"\n")
        rows += batch.num_rows
    return rows


def _csv(reader: pa.RecordBatchReader, sink: BinaryIO) -> int:
    """Write CSV. Nested values, bytes and intervals have no CSV form: they are written as text."""
    import pyarrow.csv as pacsv  # noqa: PLC0415 - most results are printed

    return _write(
        _with_text_columns(reader, lambda kind: pa.types.is_nested(kind) or _is_interval(kind) or _is_bytes(kind)),
        sink,
        pacsv.CSVWriter,
    )


def _with_text_columns(reader: pa.RecordBatchReader, needs_text: Callable[[pa.DataType], bool]) -> pa.RecordBatchReader:
    """Return the same result with some columns as text and with unique names."""
    names = distinct_names(reader.schema.names)
    types = [pa.string() if needs_text(field.type) else field.type for field in reader.schema]
    schema = pa.schema(list(zip(names, types, strict=True)))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [
                pa.array([_format_cell(value) for value in to_json_values(column)], pa.string())
                if needs_text(column.type)
                else column
                for column in batch.columns
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _is_interval(kind: pa.DataType) -> bool:
    return bool(pa.types.is_interval(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _format_cell(said: Any) -> str | None:
    return said if said is None or isinstance(said, str) else json.dumps(said, ensure_ascii=False)


def _write(reader: pa.RecordBatchReader, sink: BinaryIO, open_writer: Callable[..., Any]) -> int:
    rows = 0
    with open_writer(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _parquet(reader: pa.RecordBatchReader, sink: BinaryIO) -> int:
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    return _write(_with_text_columns(reader, _is_interval), sink, partial(pq.ParquetWriter, compression="zstd"))


def _arrow(reader: pa.RecordBatchReader, sink: BinaryIO) -> int:
    return _write(reader, sink, pa.ipc.new_stream)


_WRITERS: dict[str, Callable[[pa.RecordBatchReader, BinaryIO], int]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
    "arrow": _arrow,
}
