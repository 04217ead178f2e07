"""Results as JSON lines, CSV, Parquet or Arrow: streamed, so that a large result needs little memory."""

from __future__ import annotations

import json
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


def plain(value: Any) -> Any:
    r"""A value as JSON says it: ids as hex, times as RFC 3339, maps as objects.

    >>> plain(b"\x01\xff")
    '01ff'
    """
    match value:
        case bytes():
            return value.hex()
        case list() if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {str(key): plain(item) for key, item in value}
        case list():
            return [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case None | bool() | int() | float() | str():
            return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _jsonl(reader: pa.RecordBatchReader, sink: BinaryIO) -> int:
    rows = 0
    for batch in reader:
        for row in batch.to_pylist():
            sink.write(
                json.dumps({name: plain(value) for name, value in row.items()}, ensure_ascii=False).encode() + b"\n"
            )
        rows += batch.num_rows
    return rows


def _csv(reader: pa.RecordBatchReader, sink: BinaryIO) -> int:
    """Nested values and bytes have no CSV of their own: they are written as JSON and hex."""
    fields = [field if _csv_knows(field.type) else field.with_type(pa.string()) for field in reader.schema]
    schema = pa.schema(fields)
    rows = 0
    with pacsv.CSVWriter(sink, schema) as writer:
        for batch in reader:
            columns = [
                column if _csv_knows(column.type) else pa.array(map(_cell, column.to_pylist()), pa.string())
                for column in batch.columns
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            rows += batch.num_rows
    return rows


def _csv_knows(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _cell(value: Any) -> str | None:
    said = plain(value)
    return said if said is None or isinstance(said, str) else json.dumps(said, ensure_ascii=False)


def _parquet(reader: pa.RecordBatchReader, sink: BinaryIO) -> int:
    with pq.ParquetWriter(sink, reader.schema, compression="zstd") as writer:
        return sum(_each(reader, writer.write_batch))


def _arrow(reader: pa.RecordBatchReader, sink: BinaryIO) -> int:
    with pa.ipc.new_stream(sink, reader.schema) as writer:
        return sum(_each(reader, writer.write_batch))


def _each(reader: pa.RecordBatchReader, write: Callable[[pa.RecordBatch], None]) -> Iterator[int]:
    for batch in reader:
        write(batch)
        yield batch.num_rows


_WRITERS: dict[str, Callable[[pa.RecordBatchReader, BinaryIO], int]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
    "arrow": _arrow,
}
