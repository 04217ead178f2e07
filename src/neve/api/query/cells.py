"""Rows of Arrow as values of JSON and as text; the same values as `neve.query.output.plain`, a column at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import QueryError
from neve.query.output import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UTC_NAMES = ("UTC", "Etc/UTC")


def slices(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of about so many bytes; a row is never cut."""
    size = max(batch.nbytes, 1)
    rows = max(1, min(batch.num_rows, batch.num_rows * most_bytes // size))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def json_rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Each row as values that JSON has."""
    return zip(*json_columns(batch), strict=True)


def json_columns(batch: pa.RecordBatch) -> list[list[Any]]:
    """Each column as values that JSON has."""
    return [_values(column, field) for column, field in zip(batch.columns, batch.schema, strict=True)]


def with_text(batch: pa.RecordBatch, schema: pa.Schema, needs_text: Callable[[pa.DataType], bool]) -> pa.RecordBatch:
    """A batch in another schema, whose columns that need it are text."""
    columns = [
        pa.array([_text(value) for value in _values(column, field)], pa.string()) if needs_text(column.type) else column
        for column, field in zip(batch.columns, batch.schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _values(column: pa.Array, field: pa.Field) -> list[Any]:
    kind = column.type
    if _is_moment(kind):
        return _moments(column)
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException) as error:
        # Arrow has days that no calendar has.
        raise QueryError(
            f"a value of column {field.name!r} can't be written: {str(error).splitlines()[0]}",
            hint="cast it to VARCHAR, or ask for the format arrow",
        ) from error
    if _is_plain(column):
        return values
    if pa.types.is_binary(kind):
        return [None if value is None else value.hex() for value in values]
    if pa.types.is_map(kind) and kind.key_type == kind.item_type == pa.string():
        return [None if value is None else dict(value) for value in values]
    return [plain(value, kind) for value in values]


def _is_plain(column: pa.Array) -> bool:
    """Whether JSON has every value as it is."""
    kind = column.type
    if pa.types.is_floating(kind):
        return pc.all(pc.is_finite(column)).as_py() is not False
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_null(kind)
    )


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, *UTC_NAMES))


def _moments(column: pa.Array) -> list[str | None]:
    """Times as RFC 3339; Python's own would take ten times as long, and knows only four digits of a year."""
    zone = "+00:00" if column.type.tz else ""
    micros = column.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
    texts = np.datetime_as_string(micros, unit="us").tolist()
    return [None if text == "NaT" else text.removesuffix(".000000") + zone for text in texts]


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
