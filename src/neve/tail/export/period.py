"""When spans of some traces may have begun: which files are looked into for them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from pyiceberg.expressions import And, GreaterThanOrEqual, IsNull, LessThanOrEqual, Or, Reference
from pyiceberg.types import TimestamptzType

from neve.lake.calendar import EPOCH
from neve.tail.rows import OWN

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema

TIME = "timestamp"  # of the lake's own tables: the start, cut to microseconds
BEFORE = timedelta(milliseconds=1)
# Clocks differ, and a span may begin after the latest end of its trace; none begins long after it arrived.
AFTER = timedelta(days=1)


@dataclass(frozen=True)
class Period:
    """From the earliest start on, until what arrived last, where that is known."""

    first_ns: int
    last_us: int | None

    def filter(self, schema: Schema, start: str) -> BooleanExpression | None:
        """What rows of that time fulfil in a table; none where its columns can't tell."""
        named = {field.name: field.field_type for field in schema.fields}
        column = TIME if named.keys() >= OWN else start
        if not isinstance(named.get(column), TimestamptzType):
            return None
        term = Reference(column)
        first = EPOCH + timedelta(microseconds=self.first_ns // 1000) - BEFORE
        found: BooleanExpression = GreaterThanOrEqual(term=term, value=first.isoformat())
        if self.last_us is not None:
            last = EPOCH + timedelta(microseconds=self.last_us) + AFTER
            found = And(found, LessThanOrEqual(term=term, value=last.isoformat()))
        return Or(found, IsNull(term=term))
