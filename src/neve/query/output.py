"""Results as JSON lines, CSV, Parquet or Arrow: streamed, so that a large result needs little memory."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORMATS = ("table", "jsonl", "csv", "parquet", "arrow")


def write_result(reader: pa.RecordBatchReader, form: str, sink: BinaryIO) -> int:
    """Write every row, and say how many there were."""
    return _WRITERS[form](reader, sink)


def plain(value: Any, kind: pa.DataType | None = None) -> Any:  # noqa: PLR0911 - one way out for each type
    r"""A value as JSON says it: ids as hex, times as RFC 3339, maps as objects, numbers that JSON lacks as text.

    >>> plain(b"\x01\xff"), plain([], pa.map_(pa.string(), pa.string())), plain(float("inf"))
    ('01ff', {}, 'Infinity')
    """
    if kind is not None and pa.types.is_map(kind) and value is not None:
        return {str(key): plain(item, kind.item_type) for key, item in value}
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _WORDS[str(value)]
        case bytes():
            return value.hex()
        case Decimal():
            return int(value) if value == value.to_integral_value() else str(value)  # a float would not be exact
        case [(_, _), *_] if kind is None and all(isinstance(item, tuple) for item in value):
            return {str(key): plain(item) for key, item in value}
        case list():
            inner = kind.value_type if kind is not None and hasattr(kind, "value_type") else None
            return [plain(item, inner) for item in value]
        case dict():
            return {key: plain(item, _field_type(kind, key)) for key, item in value.items()}
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _field_type(kind: pa.DataType | None, name: str) -> pa.DataType | None:
    return kind.field(name).type if kind is not None and pa.types.is_struct(kind) else None


def distinct_names(names: list[str]) -> list[str]:
    """Names with a number behind those that were there before, as in `SELECT a.*, b.*`.

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
        columns = [[plain(value, column.type) for value in column.to_pylist()] for column in batch.columns]
        for values in zip(*columns, strict=True):
            sink.write(json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False).encode() + b"\n")
        rows += batch.num_rows
    return rows


def _csv(reader: pa.RecordBatchReader, sink: BinaryIO) -> int:
    """Nested values, bytes and intervals have no CSV of their own: they are written as text."""
    return _write(
        _told(reader, lambda kind: pa.types.is_nested(kind) or _is_odd(kind) or _is_bytes(kind)), sink, pacsv.CSVWriter
    )


def _told(reader: pa.RecordBatchReader, needs_text: Callable[[pa.DataType], bool]) -> pa.RecordBatchReader:
    """The same result with some columns as text, and with every name once."""
    names = distinct_names(reader.schema.names)
    types = [pa.string() if needs_text(field.type) else field.type for field in reader.schema]
    schema = pa.schema(list(zip(names, types, strict=True)))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [
                pa.array([_cell(value, column.type) for value in column.to_pylist()], pa.string())
                if needs_text(column.type)
                else column
                for column in batch.columns
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _is_odd(kind: pa.DataType) -> bool:
    return bool(pa.types.is_interval(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _cell(value: Any, kind: pa.DataType) -> str | None:
    said = plain(value, kind)
    return said if said is None or isinstance(said, str) else json.dumps(said, ensure_ascii=False)


def _write(reader: pa.RecordBatchReader, sink: BinaryIO, open_writer: Callable[..., Any]) -> int:
    rows = 0
    with open_writer(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _parquet(reader: pa.RecordBatchReader, sink: BinaryIO) -> int:
    return _write(_told(reader, _is_odd), sink, partial(pq.ParquetWriter, compression="zstd"))


def _arrow(reader: pa.RecordBatchReader, sink: BinaryIO) -> int:
    return _write(reader, sink, pa.ipc.new_stream)


_WRITERS: dict[str, Callable[[pa.RecordBatchReader, BinaryIO], int]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
    "arrow": _arrow,
}
