"""The range of time that a request is about, as an expression, as SQL, and as what bounds of files say of it."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions.literals import TimestampLiteral
from pyiceberg.types import TimestamptzType
from pyiceberg.utils.datetime import datetime_to_micros

from neve.lake.calendar import EPOCH
from neve.query.scan.expressions import all_of, said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema

    from neve.query.request import TimeRange
    from neve.query.scan.manifests import Entry

TIME = "timestamp"


def bounds_of(schema: Schema, time: TimeRange) -> list[tuple[str, int]]:
    """The comparisons that rows must pass, with moments in microseconds; none for a table that has no timestamp."""
    if TIME not in schema.column_names or not isinstance(schema.find_type(TIME), TimestamptzType):
        return []
    ends = ((">=", time.since), ("<", time.until))
    return [(operator, micros(moment)) for operator, moment in ends if moment is not None]


def micros(moment: datetime) -> int:
    """Microseconds since 1970; without a zone a moment is in UTC."""
    return datetime_to_micros(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def within(schema: Schema, time: TimeRange) -> BooleanExpression:
    """Rows of a range of time."""
    return all_of([said(TIME, operator, TimestampLiteral(moment)) for operator, moment in bounds_of(schema, time)])


def range_of(schema: Schema, entries: Iterable[Entry]) -> tuple[datetime | None, datetime | None]:
    """The earliest and the latest moment of some files, as their bounds tell."""
    if TIME not in schema.column_names or not isinstance(schema.find_type(TIME), TimestamptzType):
        return None, None
    column = schema.find_field(TIME).field_id
    found = [(entry.lower_bounds.get(column), entry.upper_bounds.get(column)) for entry in entries]
    known = [(_moment(lower), _moment(upper)) for lower, upper in found if lower is not None and upper is not None]
    return min((first for first, _ in known), default=None), max((last for _, last in known), default=None)


def _moment(bound: bytes) -> datetime:
    return EPOCH + timedelta(microseconds=int(from_bytes(TimestamptzType(), bound)))


def insider(schema: Schema, time: TimeRange) -> Callable[[Entry], bool]:
    """Whether all rows of a file are of a range of time, as its bounds tell: then nobody has to look at each row."""
    bounds = bounds_of(schema, time)
    if not bounds:
        return lambda _entry: True
    column = schema.find_field(TIME)

    def is_inside(entry: Entry) -> bool:
        lower, upper = entry.lower_bounds.get(column.field_id), entry.upper_bounds.get(column.field_id)
        has_nulls = not column.required and entry.null_value_counts.get(column.field_id) != 0
        if lower is None or upper is None or has_nulls:
            return False
        first, last = (int(from_bytes(TimestamptzType(), bound)) for bound in (lower, upper))
        return all(first >= moment if operator == ">=" else last < moment for operator, moment in bounds)

    return is_inside
