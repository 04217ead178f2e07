"""Times from the bounds in a table's metadata, where no data file needs to be opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyiceberg.transforms import TimeTransform
from pyiceberg.types import DateType, TimestampNanoType, TimestampType, TimestamptzNanoType, TimestamptzType

from neve.errors import ConfigError
from neve.lake.statistics import TIME_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

Unit = Literal["us", "ns", "day"]

DAY_MICROS = 86_400_000_000
_BYTES = {"us": 8, "ns": 8, "day": 4}


@dataclass(frozen=True)
class TimeColumn:
    """The column that says when a record happened, and what its bounds count."""

    name: str
    field_id: int
    unit: Unit


def find_time_column(table: Table, wanted: str = "") -> TimeColumn | None:
    """The column that is asked for; else one that has a usual name, or that the table is partitioned by."""
    schema = table.schema()
    if wanted:
        found = _column(table, wanted)
        if found is None:
            raise ConfigError(
                f"{'.'.join(table.name())} has no time column {wanted!r}, expected a timestamp or a date",
                hint="`neve tables` and your catalog say which columns there are",
            )
        return found
    partitioned = [
        schema.find_column_name(field.source_id)
        for field in table.spec().fields
        if isinstance(field.transform, TimeTransform)
    ]
    known = (_column(table, name) for name in (*TIME_COLUMNS, *partitioned) if name)
    return next((column for column in known if column), None)


def _column(table: Table, name: str) -> TimeColumn | None:
    field = next((field for field in table.schema().fields if field.name == name), None)
    unit = _unit(field.field_type) if field else None
    return TimeColumn(name, field.field_id, unit) if field and unit else None


def _unit(kind: IcebergType) -> Unit | None:
    match kind:
        case TimestampType() | TimestamptzType():
            return "us"
        case TimestampNanoType() | TimestamptzNanoType():
            return "ns"
        case DateType():
            return "day"
    return None


def lowest(column: TimeColumn | None) -> str:
    """SQL for the earliest time of a file, in microseconds."""
    return _micros("data_file.lower_bounds", column) if column else "NULL"


def highest(column: TimeColumn | None) -> str:
    """SQL for the latest time of a file, in microseconds; a date lasts until its day is over."""
    if column is None:
        return "NULL"
    last = f" + {DAY_MICROS - 1}" if column.unit == "day" else ""
    return _micros("data_file.upper_bounds", column) + last


def _micros(bounds: str, column: TimeColumn) -> str:
    number = little_endian(f"{bounds}[{column.field_id}]", _BYTES[column.unit])
    match column.unit:
        case "day":
            return f"({number} * {DAY_MICROS})"
        case "ns":
            return f"({number} // 1000)"
    return number


def little_endian(blob: str, width: int) -> str:
    """SQL for the whole number that a BLOB holds, lowest byte first; null where it has another width."""
    digits = " || ".join(f"substr(hex({blob}), {start}, 2)" for start in range(2 * width - 1, 0, -2))
    unsigned = f"CAST('0x' || {digits} AS UBIGINT)::HUGEINT"
    wrap = 1 << (8 * width)
    signed = f"CASE WHEN {unsigned} >= {wrap // 2} THEN {unsigned} - {wrap} ELSE {unsigned} END"
    return f"(CASE WHEN octet_length({blob}) = {width} THEN ({signed})::BIGINT END)"
