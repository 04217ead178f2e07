"""Statistics of a table from its metadata alone: rows, files, bytes, snapshots, and times from column bounds.

No data file is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyiceberg.conversions import from_bytes
from pyiceberg.transforms import TimeTransform
from pyiceberg.types import DateType, TimestampNanoType, TimestampType, TimestamptzNanoType, TimestamptzType

from neve.errors import ConfigError
from neve.lake.read.file_values import read_bounds
from neve.lake.read.local_statistics import TIME_COLUMNS, TableStatistics, make_statistics
from neve.lake.read.snapshot_files import iterate_data_files
from neve.lake.time_ranges import moment_of

if TYPE_CHECKING:
    from datetime import datetime

    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType


def read_table_statistics(table: Table) -> TableStatistics:
    """Return the statistics of the current snapshot."""
    return make_statistics(table, _read_time_range(table))


def _read_time_range(table: Table) -> tuple[datetime | None, datetime | None]:
    """Return the smallest and largest time from the bounds in the manifests. No data file is opened."""
    field = next((field for field in table.schema().fields if field.name in TIME_COLUMNS), None)
    if field is None:
        return None, None
    bounds = [bound for file in iterate_data_files(table) for bound in read_bounds(file, field.field_id)]
    kind = TimestamptzType()
    times = [int(from_bytes(kind, bound)) for bound in bounds if bound is not None]
    return (moment_of(min(times)), moment_of(max(times))) if times else (None, None)


TimeUnit = Literal["us", "ns", "day"]

DAY_MICROS = 86_400_000_000
_UNIT_BYTES = {"us": 8, "ns": 8, "day": 4}


@dataclass(frozen=True)
class TimeColumn:
    """The column with the time of a record, and the unit of its bounds."""

    name: str
    field_id: int
    unit: TimeUnit


def find_time_column(table: Table, wanted: str = "") -> TimeColumn | None:
    """Return the requested column, or else one with a usual name or one of the partition spec."""
    schema = table.schema()
    if wanted:
        found = _make_time_column(table, wanted)
        if found is None:
            raise ConfigError(
                f"{'.'.join(table.name())} has no time column {wanted!r}, expected a timestamp or a date",
                hint="check the columns of the table in your catalog",
            )
        return found
    partitioned = [
        schema.find_column_name(field.source_id)
        for field in table.spec().fields
        if isinstance(field.transform, TimeTransform)
    ]
    known = (_make_time_column(table, name) for name in (*TIME_COLUMNS, *partitioned) if name)
    return next((column for column in known if column), None)


def _make_time_column(table: Table, name: str) -> TimeColumn | None:
    field = next((field for field in table.schema().fields if field.name == name), None)
    unit = _find_time_unit(field.field_type) if field else None
    return TimeColumn(name, field.field_id, unit) if field and unit else None


def _find_time_unit(kind: IcebergType) -> TimeUnit | None:
    match kind:
        case TimestampType() | TimestamptzType():
            return "us"
        case TimestampNanoType() | TimestamptzNanoType():
            return "ns"
        case DateType():
            return "day"
    return None


def lowest_time_sql(column: TimeColumn | None) -> str:
    """Return the SQL for the earliest time of a file, in microseconds."""
    return _micros_sql("data_file.lower_bounds", column) if column else "NULL"


def highest_time_sql(column: TimeColumn | None) -> str:
    """Return the SQL for the latest time of a file, in microseconds. A date counts until the end of its day."""
    if column is None:
        return "NULL"
    last = f" + {DAY_MICROS - 1}" if column.unit == "day" else ""
    return _micros_sql("data_file.upper_bounds", column) + last


def _micros_sql(bounds: str, column: TimeColumn) -> str:
    number = little_endian_sql(f"{bounds}[{column.field_id}]", _UNIT_BYTES[column.unit])
    match column.unit:
        case "day":
            return f"({number} * {DAY_MICROS})"
        case "ns":
            return f"({number} // 1000)"
    return number


def little_endian_sql(blob: str, width: int) -> str:
    """Return the SQL for the little-endian integer in a BLOB, or null if it has another width."""
    digits = " || ".join(f"substr(hex({blob}), {start}, 2)" for start in range(2 * width - 1, 0, -2))
    unsigned = f"CAST('0x' || {digits} AS UBIGINT)::HUGEINT"
    wrap = 1 << (8 * width)
    signed = f"CASE WHEN {unsigned} >= {wrap // 2} THEN {unsigned} - {wrap} ELSE {unsigned} END"
    return f"(CASE WHEN octet_length({blob}) = {width} THEN ({signed})::BIGINT END)"
