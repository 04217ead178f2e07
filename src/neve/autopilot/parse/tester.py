"""Tests of one column: what a term that is compared with values says of the column's bounds.

A test may let more through than the query does, never less: where it can't be exact it is wider, and where nothing
can be said it is of the kind `other`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, cast

from pyiceberg.types import BooleanType, DateType, IntegerType, LongType, StringType

from neve.autopilot.parse.moments import day_of, floor, midnight, moment_of, shifted
from neve.autopilot.parse.trees import NEVER, all_of, any_of
from neve.autopilot.parse.typed import typed
from neve.autopilot.parse.values import Unknown
from neve.autopilot.workload import AnyOf, Test

if TYPE_CHECKING:
    from neve.autopilot.parse.term import Term
    from neve.autopilot.workload import Filter, Kind, Value

MOST_VALUES = 1_000  # of an IN; more are told by their least and greatest
MOST_UNLIKE = 16
FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NOT_EQUAL = "<>"


@dataclass(frozen=True)
class Tester:
    """Makes tests of one term."""

    term: Term
    dialect: str

    def compared(self, operator: str, value: Value | None) -> Filter:
        """The term compared with a value."""
        if value is None:
            return NEVER
        try:
            return self._compared(operator, value)
        except Unknown:
            return self.other()

    def among(self, values: list[Value | None], *, truth: bool) -> Filter:
        """The term as one of some values, or as none of them."""
        if not truth:
            if len(values) > MOST_UNLIKE:
                return self.other()
            return all_of(self.compared(NOT_EQUAL, value) for value in values) or self.other()
        there = [value for value in values if value is not None]
        if not there:
            return NEVER
        try:
            return self._among(there)
        except Unknown:
            return self.other()

    def like(self, prefix: str, *, whole: bool) -> Filter:
        """The term as a text that begins with another, or is it."""
        if whole:
            return self.compared("=", prefix)
        plain = not self.term.is_opaque and not self.term.length and not self.term.unit
        is_text = self.term.type is None or isinstance(self.term.type, StringType)
        return self._test("prefix", (prefix,)) if prefix and plain and is_text else self.other()

    def null(self, *, truth: bool) -> Filter:
        """The term as null, or as anything else."""
        term = self.term
        if term.is_opaque or (term.is_key and self.dialect == "clickhouse"):
            return self.other()
        return self._test("is_null" if truth else "not_null")

    def flag(self, *, truth: bool) -> Filter:
        """The term as a condition by itself."""
        if self.term.type is not None and not isinstance(self.term.type, BooleanType):
            return self.other()
        return self.compared("=", truth)

    def other(self) -> Test:
        """What nobody can tell."""
        return Test(self.term.column, "other", function=self.term.function)

    def _compared(self, operator: str, value: Value) -> Filter:
        term = self.term
        if term.is_opaque or self._fills_in(operator, value):
            return self.other()
        if term.length:
            return self._begins(operator, value)
        if term.is_year:
            value = _new_year(value)
        if term.unit:
            return self._cut(operator, typed(_day(value) if term.is_day else value, term.type))
        return self._plain(operator, typed(value, term.type))

    def _fills_in(self, operator: str, value: Value) -> bool:
        """ClickHouse has an empty text for a key that is not there, which bounds know nothing of."""
        if not self.term.is_key or self.dialect != "clickhouse":
            return False
        return value == "" or operator not in {"=", ">", ">="}

    def _plain(self, operator: str, value: Value) -> Filter:
        between = _between(self.term, value)
        if between is not None:
            operator, value = between[operator]
            if not operator:
                return self.other()
        if operator == "=":
            return self._test("eq", (value,))
        if operator == NOT_EQUAL:
            return AnyOf((self._range(high=value, unlike=True), self._range(low=value, unlike=True)))
        if operator in {">", ">="}:
            return self._range(low=value, inclusive=operator == ">=")
        return self._range(high=value, inclusive=operator == "<=")

    def _among(self, values: list[Value]) -> Filter:
        term = self.term
        if len(values) == 1 or term.unit or term.length or term.is_opaque:
            return any_of(self.compared("=", value) for value in values) or self.other()
        known = [typed(value, term.type) for value in values]
        if any(_between(term, value) is not None or self._fills_in("=", value) for value in known):
            return any_of(self.compared("=", value) for value in values) or self.other()
        if len(known) > MOST_VALUES:
            low, high = _edges(known)
            return Test(term.column, "range", low=low, high=high, function=term.function)
        return self._test("in", tuple(dict.fromkeys(known)))

    def _begins(self, operator: str, value: Value) -> Filter:
        """The first characters of a text compared with another text."""
        if operator != "=" or not isinstance(value, str) or len(value) > self.term.length or not value:
            raise Unknown
        kind: Kind = "prefix" if len(value) == self.term.length else "eq"
        return Test(self.term.column, kind, (value,), function=self.term.function)

    def _cut(self, operator: str, value: Value) -> Filter:
        """The start of a unit of time compared with a moment: the column lies within units."""
        known = moment_of(value) if isinstance(value, str) else value
        if not isinstance(known, date):
            raise Unknown
        moment = known if isinstance(known, datetime) else midnight(known)
        start = floor(moment, self.term.unit)
        after = shifted(start, 1, self.term.unit)
        first = start if start == moment else after
        if after is None or first is None or operator == NOT_EQUAL:
            raise Unknown
        if operator == "=":
            if start != moment:
                return NEVER
            return self._span(self._edge(start), self._edge(after))
        low = {">=": first, ">": after}.get(operator)
        high = {"<=": after, "<": first}.get(operator)
        return self._span(self._edge(low), self._edge(high))

    def _span(self, low: Value | None, high: Value | None) -> Test:
        return Test(self.term.column, "range", (), low, high, True, high is None, self.term.function)

    def _edge(self, moment: date | None) -> Value | None:
        if isinstance(moment, datetime) and isinstance(self.term.type, DateType):
            return moment.date()
        return moment

    def _range(
        self, low: Value | None = None, high: Value | None = None, *, inclusive: bool = False, unlike: bool = False
    ) -> Test:
        function = NOT_EQUAL if unlike else self.term.function
        return Test(
            self.term.column,
            "range",
            low=low,
            high=high,
            low_inclusive=inclusive or low is None,
            high_inclusive=inclusive or high is None,
            function=function,
        )

    def _test(self, kind: Kind, values: tuple[Value, ...] = ()) -> Test:
        return Test(self.term.column, kind, values, function=self.term.function)


def _between(term: Term, value: Value) -> dict[str, tuple[str, Value]] | None:
    """For a value between two of the column's own, a fraction or a time within a day: what comparisons mean then."""
    if isinstance(term.type, IntegerType | LongType) and isinstance(value, Decimal):
        above: Value = ceil(value)
        below: Value = cast("int", above) - 1
    elif isinstance(term.type, DateType) and isinstance(value, datetime):
        below = value.date()
        above = date.fromordinal(value.date().toordinal() + 1)
    else:
        return None
    return {
        "=": ("", value),
        "<>": ("", value),
        ">": (">=", above),
        ">=": (">=", above),
        "<": ("<=", below),
        "<=": ("<=", below),
    }


def _day(value: Value) -> Value:
    """A day where text says one: engines read it as what it stands beside."""
    found = day_of(value) if isinstance(value, str) else value
    if found is None:
        raise Unknown
    return found


def _new_year(value: Value) -> Value:
    if type(value) is not int or not 1 < value < 9998:
        raise Unknown
    return datetime(value, 1, 1, tzinfo=UTC)


def _edges(values: list[Value]) -> tuple[Value, Value]:
    try:
        return min(values), max(values)
    except TypeError:
        raise Unknown from None
