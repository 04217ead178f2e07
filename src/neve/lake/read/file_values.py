"""Values of a data file that its manifest entry contains: partition, organization, times, referenced data file."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from pyiceberg.conversions import from_bytes
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, YearTransform
from pyiceberg.types import StringType, TimestamptzType

from neve.lake.calendar import Unit, from_ordinal, micros_of
from neve.lake.time_ranges import EVERYTHING, Ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

EPOCH = date(1970, 1, 1)
TIME, OWNER = "timestamp", "organization_id"
PATH_ID = 2147483546  # column of a position-delete file with the path of the data file, reserved by Iceberg
WHOLE_BYTES = 15  # a longer bound may have been truncated
UNITS: dict[type, Unit] = {HourTransform: "hour", DayTransform: "day", MonthTransform: "month", YearTransform: "year"}


class HasBounds(Protocol):
    """A file with the bounds of its columns by their ids."""

    @property
    def lower_bounds(self) -> Mapping[int, bytes] | None:
        """The smallest value of each column."""

    @property
    def upper_bounds(self) -> Mapping[int, bytes] | None:
        """The largest value of each column."""


def read_bounds(file: HasBounds, field_id: int) -> tuple[bytes | None, bytes | None]:
    """Return the bounds of one column of a file, as bytes."""
    return (file.lower_bounds or {}).get(field_id), (file.upper_bounds or {}).get(field_id)


def read_time_bounds(table: Table, file: HasBounds, column: str = TIME) -> tuple[int, int] | None:
    """Return the earliest and the latest time in a file in microseconds, from the table's metadata."""
    field = table.schema().find_field(column)
    lower, upper = read_bounds(file, field.field_id)
    if not isinstance(field.field_type, TimestamptzType) or lower is None or upper is None:
        return None
    return int(from_bytes(field.field_type, lower)), int(from_bytes(field.field_type, upper))


def find_organization(table: Table, file: DataFile, column: str = OWNER) -> str | None:
    """Return the one organization of a file's rows from its partition or bounds; `None` if they do not determine it."""
    source = table.schema().find_field(column).field_id
    for place, part in enumerate(table.metadata.specs()[file.spec_id].fields):
        if part.source_id == source and isinstance(part.transform, IdentityTransform):
            value = file.partition[place]
            return None if value is None else str(value)
    lower, upper = read_bounds(file, source)
    is_whole = lower is not None and lower == upper and len(lower) <= WHOLE_BYTES
    return str(from_bytes(StringType(), lower)) if is_whole and lower is not None else None


def find_referenced_path(file: HasBounds) -> str | None:
    """Return the data file that a position-delete file refers to, or `None` if it may refer to several."""
    lower, upper = read_bounds(file, PATH_ID)
    return lower.decode() if lower is not None and lower == upper else None


def partition_values(file: DataFile) -> tuple[Any, ...]:
    """Return the values of a file's partition, in the order of its spec."""
    return tuple(file.partition[place] for place in range(len(file.partition)))


def partition_to_json(metadata: TableMetadata, file: DataFile, spec_id: int) -> list[object]:
    """Return a file's partition values in Iceberg's JSON form."""
    values: list[object] = []
    for place, part in enumerate(metadata.specs()[spec_id].fields):
        value = file.partition[place]
        if isinstance(part.transform, DayTransform) and isinstance(value, int):
            value = EPOCH + timedelta(days=value)
        values.append(value.isoformat() if isinstance(value, date) else value)
    return values


def partition_period(table: Table, file: DataFile, column: str = TIME) -> Ranges:
    """Return the time range of a file's partition, or all time if its partition has none."""
    source = table.schema().find_field(column).field_id
    for place, part in enumerate(table.metadata.specs()[file.spec_id].fields):
        unit, value = UNITS.get(type(part.transform)), file.partition[place]
        if part.source_id == source and unit is not None and isinstance(value, int):
            first, end = (micros_of(from_ordinal(unit, number)) for number in (value, value + 1))
            return Ranges.of([(first, end)])
    return EVERYTHING
