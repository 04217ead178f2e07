"""Comparisons of a term with values as tests of its column.

A test may let more rows through than the query, never fewer: where it can't be exact it is wider, and where nothing
is known it has the kind `other`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, cast

from pyiceberg.types import BooleanType, DateType, IntegerType, LongType, StringType

from neve.predicate.filters import NEVER, AnyOf, Test, all_of, any_of
from neve.predicate.times import floor_time, parse_day, parse_time, shift_time, start_of_day
from neve.predicate.values import Constant, UnknownValue, convert_to_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from neve.predicate.filters import Filter, Kind, Value
    from neve.predicate.terms import Term

MAX_VALUES = 1_000  # of an IN; longer lists become a range from minimum to maximum
NOT_EQUAL = "<>"


@dataclass(frozen=True)
class Rules:
    """Rules of the engine that runs a query.

    With `is_exact`, constants have the types in which the engine compares them, so that a comparison that can't hold
    excludes every row. Otherwise it may be a comparison in another type, and excludes none.
    """

    dialect: str
    is_exact: bool = False
    max_excluded: int = 16  # values of a NOT IN

    @property
    def has_backslash_escapes(self) -> bool:
        """Return whether a backslash escapes a character of a pattern."""
        return self.dialect in {"spark", "clickhouse"}

    @property
    def fills_in_keys(self) -> bool:
        """Return whether a missing key of a map is an empty text, which bounds don't contain."""
        return self.dialect == "clickhouse"


@dataclass(frozen=True)
class ComparisonBuilder:
    """Builder of tests on one term."""

    term: Term
    rules: Rules

    def compare(self, operator: str, constant: Constant) -> Filter:
        """Return the test that compares the term with a constant; its least and its greatest value count."""
        if constant.is_single:
            return self._compare_value(operator, constant.low)
        if operator == "=":
            low, high = self._compare_value(">=", constant.low), self._compare_value("<=", constant.high)
            return all_of([low, high]) or self.other()
        if operator == NOT_EQUAL:
            return self.other()
        return self._compare_value(operator, constant.low if operator in {">", ">="} else constant.high)

    def among(self, constants: Sequence[Constant], *, truth: bool) -> Filter:
        """Return the test that the term is one of some values, or none of them."""
        if not truth:
            if len(constants) > self.rules.max_excluded:
                return self.other()
            return all_of(self.compare(NOT_EQUAL, one) for one in constants) or self.other()
        values = [one for one in constants if one.low is not None]
        if not values:
            return NEVER
        try:
            return self._among(values)
        except UnknownValue:
            return self.other()

    def like(self, prefix: str, *, whole: bool) -> Filter:
        """Return the test that the term begins with a text, or is equal to it."""
        if not self._is_text:
            return self.other()
        if whole:
            return self._compare_value("=", prefix)
        plain = not self.term.is_opaque and not self.term.length and not self.term.is_truncated
        return self._test("prefix", (prefix,)) if plain and (prefix or self.rules.is_exact) else self.other()

    def unlike(self, text: str) -> Filter:
        """Return the test that the term is another text."""
        return self._compare_value(NOT_EQUAL, text) if self._is_text else self.other()

    def null(self, *, truth: bool) -> Filter:
        """Return the test that the term is null, or is not null."""
        term = self.term
        if term.is_opaque or (term.is_key and self.rules.fills_in_keys) or (term.function and self.rules.is_exact):
            return self.other()
        return self._test("is_null" if truth else "not_null")

    def flag(self, *, truth: bool) -> Filter:
        """Return the test of a boolean term that is a condition by itself."""
        if self.term.type is not None and not isinstance(self.term.type, BooleanType):
            return self.other()
        return self._compare_value("=", truth)

    def other(self) -> Test:
        """Return the test for a comparison that statistics can't answer."""
        return Test(self.term.column, "other", function=self.term.function)

    @property
    def _is_text(self) -> bool:
        return self.term.type is None or isinstance(self.term.type, StringType)

    def _compare_value(self, operator: str, value: Value | None) -> Filter:
        if value is None:
            return NEVER
        try:
            return self._compare_known(operator, value)
        except (UnknownValue, OverflowError, ValueError):  # a time beyond the calendar
            return self.other()

    def _compare_known(self, operator: str, value: Value) -> Filter:
        term = self.term
        if term.is_opaque or self._fills_in(operator, value):
            return self.other()
        if term.length:
            return self._begins(operator, value)
        if term.is_year:
            value = _year_start(value)
        if term.is_truncated:
            moment = _to_moment(convert_to_type(_to_day(value) if term.is_day else value, term.type))
            return self._cut(operator, moment) if term.unit else self._bin(operator, moment, term.width)
        return self._plain(operator, convert_to_type(value, term.type))

    def _fills_in(self, operator: str, value: Value) -> bool:
        """Return whether a comparison may match missing keys."""
        if not self.term.is_key or not self.rules.fills_in_keys:
            return False
        return value == "" or operator not in {"=", ">", ">="}

    def _plain(self, operator: str, value: Value) -> Filter:
        between = _round_between(self.term, value)
        if between is not None:
            if operator in {"=", NOT_EQUAL}:
                return self._never_equal(operator)
            operator, value = between[operator]
        if operator == "=":
            return self._test("eq", (value,))
        if operator == NOT_EQUAL:
            return AnyOf((self._range(high=value, unlike=True), self._range(low=value, unlike=True)))
        if operator in {">", ">="}:
            return self._range(low=value, inclusive=operator == ">=")
        return self._range(high=value, inclusive=operator == "<=")

    def _never_equal(self, operator: str) -> Filter:
        """Compare with a value that the column can't have."""
        if not self.rules.is_exact:
            return self.other()
        return NEVER if operator == "=" else self._test("not_null")

    def _among(self, constants: Sequence[Constant]) -> Filter:
        term = self.term
        each = (self.compare("=", one) for one in constants)
        is_plain = not (term.is_truncated or term.length or term.is_opaque)
        if len(constants) == 1 or not is_plain or not all(one.is_single for one in constants):
            return any_of(each) or self.other()
        known = [convert_to_type(one.low, term.type) for one in constants if one.low is not None]
        if any(_round_between(term, value) is not None or self._fills_in("=", value) for value in known):
            return any_of(each) or self.other()
        if len(known) > MAX_VALUES:
            low, high = _min_max(known)
            return Test(term.column, "range", low=low, high=high, function=term.function)
        return self._test("in", tuple(dict.fromkeys(known)))

    def _begins(self, operator: str, value: Value) -> Filter:
        """Compare the first characters of a text with another text."""
        if operator != "=" or not isinstance(value, str) or len(value) > self.term.length or not value:
            raise UnknownValue
        kind: Kind = "prefix" if len(value) == self.term.length else "eq"
        return Test(self.term.column, kind, (value,), function=self.term.function)

    def _cut(self, operator: str, moment: datetime) -> Filter:
        """Compare the start of a unit of time with a time: the column is in a range of whole units."""
        start = floor_time(moment, self.term.unit)
        after = shift_time(start, 1, self.term.unit)
        first = start if start == moment else after
        if after is None or first is None or operator == NOT_EQUAL:
            raise UnknownValue
        if operator == "=":
            if start != moment:
                return NEVER
            return self._span(self._edge(start), self._edge(after))
        low = {">=": first, ">": after}.get(operator)
        high = {"<=": after, "<": first}.get(operator)
        return self._span(self._edge(low), self._edge(high))

    def _bin(self, operator: str, moment: datetime, width: timedelta | None) -> Filter:
        """Compare a time that is less than a width before the column's: the column is in a range beside it."""
        if operator == NOT_EQUAL or width is None or isinstance(self.term.type, DateType):
            raise UnknownValue
        low = moment if operator in {"=", ">", ">="} else None
        return self._span(low, moment + width if operator in {"=", "<", "<="} else None)

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


def _round_between(term: Term, value: Value) -> dict[str, tuple[str, Value]] | None:
    """Return the equivalent comparisons for a value between two values of the column's type.

    Such values are a fraction, or a time within a day.
    """
    if isinstance(term.type, IntegerType | LongType) and isinstance(value, Decimal):
        above: Value = ceil(value)
        below: Value = cast("int", above) - 1
    elif isinstance(term.type, DateType) and isinstance(value, datetime):
        below = value.date()
        above = date.fromordinal(value.date().toordinal() + 1)
    else:
        return None
    return {
        ">": (">=", above),
        ">=": (">=", above),
        "<": ("<=", below),
        "<=": ("<=", below),
    }


def _to_moment(value: Value) -> datetime:
    known = parse_time(value) if isinstance(value, str) else value
    if not isinstance(known, date):
        raise UnknownValue
    return known if isinstance(known, datetime) else start_of_day(known)


def _to_day(value: Value) -> Value:
    """Parse text as a day, because engines convert it to the type of the other operand."""
    found = parse_day(value) if isinstance(value, str) else value
    if found is None:
        raise UnknownValue
    return found


def _year_start(value: Value) -> Value:
    if type(value) is not int or not 1 < value < 9998:
        raise UnknownValue
    return datetime(value, 1, 1, tzinfo=UTC)


def _min_max(values: list[Value]) -> tuple[Value, Value]:
    try:
        return min(values), max(values)
    except TypeError:
        raise UnknownValue from None
