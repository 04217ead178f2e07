"""Columns of Arrow as values of JSON, the same as those of `neve.query.output.plain`, converted a column at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import QueryError
from neve.query.output import has_unnamed, to_json_value, to_json_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UTC_NAMES = ("UTC", "Etc/UTC")


def json_rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Yield each row as JSON values."""
    return zip(*json_columns(batch), strict=True)


def json_columns(batch: pa.RecordBatch) -> list[list[Any]]:
    """Return each column as JSON values."""
    return [_json_values(column, field) for column, field in zip(batch.columns, batch.schema, strict=True)]


def with_text(batch: pa.RecordBatch, schema: pa.Schema, needs_text: Callable[[pa.DataType], bool]) -> pa.RecordBatch:
    """Return a batch in another schema, with text in the columns that need it."""
    columns = [
        pa.array([_as_text(value) for value in _json_values(column, field)], pa.string())
        if needs_text(column.type)
        else column
        for column, field in zip(batch.columns, batch.schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _json_values(column: pa.Array, field: pa.Field) -> list[Any]:
    kind = column.type
    if _is_timestamp(kind):
        return _format_timestamps(column)
    try:
        if has_unnamed(kind):
            return to_json_values(column)
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException) as error:
        # Arrow has dates outside the range of Python's calendar.
        raise QueryError(
            f"a value of column {field.name!r} can't be written: {str(error).splitlines()[0]}",
            hint="cast it to VARCHAR, or request the format arrow",
        ) from error
    if _is_plain(column):
        return values
    if pa.types.is_binary(kind):
        return [None if value is None else value.hex() for value in values]
    if pa.types.is_map(kind) and kind.key_type == kind.item_type == pa.string():
        return [None if value is None else dict(value) for value in values]
    return [to_json_value(value, kind) for value in values]


def _is_plain(column: pa.Array) -> bool:
    """Return whether JSON has every value of a type unchanged."""
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


def _is_timestamp(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, *UTC_NAMES))


def _format_timestamps(column: pa.Array) -> list[str | None]:
    """Format times as RFC 3339; Python's own function is ten times slower, and supports only years of four digits."""
    zone = "+00:00" if column.type.tz else ""
    micros = column.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
    texts = np.datetime_as_string(micros, unit="us").tolist()
    return [None if text == "NaT" else text.removesuffix(".000000") + zone for text in texts]


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
