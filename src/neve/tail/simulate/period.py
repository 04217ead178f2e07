"""The time that a simulation looks back on: which traces count, and which files may hold their spans."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.types import IntegerType, LongType, TimestampType, TimestamptzType

from neve.lake.calendar import EPOCH
from neve.tail.mapping import NANOS
from neve.tail.news import everything
from neve.tail.rows import OWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from neve.tail.news import SpanFile
    from neve.tail.source import Source

# The column by which files of the lake's own tables are laid out; of the nanoseconds they tell no bounds.
OWN_TIME = "timestamp"


@dataclass(frozen=True)
class Period:
    """Traces that began at `since` or after it, and before `until`; `None`: no bound."""

    since: datetime | None = None
    until: datetime | None = None

    def holds(self, start_ns: str) -> str:
        """Whether a trace counts, as SQL, by when its first span began."""
        bounds = [(self.since, ">="), (self.until, "<")]
        parts = [f"{start_ns} {sign} {nanos_of(moment)}" for moment, sign in bounds if moment is not None]
        return " AND ".join(parts) or "true"

    def widened(self, micros: int) -> Period:
        """The time in which spans of its traces may be, where a trace takes at most so long.

        What began before counts for nothing; it is judged so that limits and moving averages are as they would be.
        """
        wider = timedelta(microseconds=micros)
        return Period(_moved(self.since, -wider), _moved(self.until, wider))

    def files(self, source: Source, table: Table) -> tuple[SpanFile, ...]:
        """The files that may hold spans of this time; all of them where the table does not tell."""
        whole = everything(table, None, "to simulate").files
        row_filter = self._row_filter(source, table)
        if not whole or isinstance(row_filter, AlwaysTrue):
            return whole
        paths = {task.file.file_path for task in table.scan(row_filter=row_filter).plan_files()}
        return tuple(file for file in whole if file.path in paths)

    def _row_filter(self, source: Source, table: Table) -> BooleanExpression:
        columns = source.reader.columns
        is_own = {field.name for field in table.schema().fields} >= OWN
        name = OWN_TIME if is_own else columns.names["start"]
        written = _writing(table, name, columns.units.get("start", ""))
        found: BooleanExpression = AlwaysTrue()
        if written is None:
            return found
        step = timedelta(milliseconds=1)  # a column may be cut to less than what `holds` compares
        if self.since is not None:
            found = And(found, GreaterThanOrEqual(term=Reference(name), value=written(self.since - step)))
        if self.until is not None:
            found = And(found, LessThanOrEqual(term=Reference(name), value=written(self.until + step)))
        return found


def nanos_of(moment: datetime) -> int:
    """Nanoseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


def _writing(table: Table, name: str, unit: str) -> Callable[[datetime], str | int] | None:
    """How a column says a moment; `None` where files can't be told apart by it."""
    kind = table.schema().find_field(name).field_type
    if isinstance(kind, TimestamptzType):
        return datetime.isoformat
    if isinstance(kind, TimestampType):
        return lambda moment: moment.replace(tzinfo=None).isoformat()
    if isinstance(kind, LongType | IntegerType) and unit in NANOS:
        return lambda moment: nanos_of(moment) // NANOS[unit]
    return None


def _moved(moment: datetime | None, by: timedelta) -> datetime | None:
    try:
        return None if moment is None else moment + by
    except OverflowError:
        return None
