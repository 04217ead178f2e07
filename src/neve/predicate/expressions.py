"""Iceberg expressions: the filter on a table in the form that manifests, partitions and files are pruned by.

An expression is true for each row for which DuckDB finds the filter true, and perhaps for more.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotNull,
    Or,
    Reference,
    StartsWith,
)
from pyiceberg.expressions.literals import DateLiteral, TimestampLiteral
from pyiceberg.types import BooleanType, DateType, DoubleType, FloatType, IntegerType, LongType
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, timestamptz_to_micros

from neve.predicate.comparisons import NOT_EQUAL
from neve.predicate.filters import AllOf, AnyOf, Filter, Test

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.expressions import LiteralPredicate
    from pyiceberg.types import IcebergType

    Types = Mapping[str, IcebergType]


ANY_ROW = AlwaysTrue()  # the expression where nothing is known
APART = 200  # members that Iceberg evaluates one by one
RANGES: dict[type, tuple[int, int]] = {IntegerType: (-(2**31), 2**31 - 1), LongType: (-(2**63), 2**63 - 1)}
_PREDICATES: dict[str, type[LiteralPredicate]] = {
    "=": EqualTo,
    "<>": NotEqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}


def compare_column(name: str, operator: str, value: Any) -> BooleanExpression:
    """Return the comparison of a column with a value."""
    return _PREDICATES[operator](term=Reference(name), value=value)


def starts_with(name: str, prefix: str) -> BooleanExpression:
    """Return the condition that a text has a prefix."""
    return StartsWith(term=Reference(name), value=prefix)


def is_null(name: str) -> BooleanExpression:
    """Return the condition that a column is null."""
    return IsNull(term=Reference(name))


def not_null(name: str) -> BooleanExpression:
    """Return the condition that a column is not null."""
    return NotNull(term=Reference(name))


def is_nan(name: str) -> BooleanExpression:
    """Return the condition that a column is NaN."""
    return IsNaN(term=Reference(name))


def all_of(parts: Sequence[BooleanExpression]) -> BooleanExpression:
    """Return the conjunction of some expressions, as a tree of minimal depth."""
    if len(parts) < 2:
        return parts[0] if parts else AlwaysTrue()
    half = len(parts) // 2
    return And(all_of(parts[:half]), all_of(parts[half:]))


def any_of(parts: Sequence[BooleanExpression]) -> BooleanExpression:
    """Return the disjunction of some expressions, as a tree of minimal depth."""
    if len(parts) < 2:
        return parts[0] if parts else AlwaysFalse()
    half = len(parts) // 2
    return Or(any_of(parts[:half]), any_of(parts[half:]))


def to_expression(found: Filter | None, types: Types) -> BooleanExpression:
    """Return the expression of a filter over columns of these types."""
    match found:
        case None:
            return ANY_ROW
        case AllOf():
            return all_of([to_expression(part, types) for part in found.parts])
        case AnyOf():
            return any_of([_to_alternative(part, types) for part in _remove_upper_halves(found.parts)])
    return _to_predicate(found, types)


def _remove_upper_halves(parts: Iterable[Filter]) -> list[Filter]:
    """Leave out the second of the two ranges that are `<>`."""
    return [part for part in parts if not (_is_unequal(part) and cast("Test", part).low is not None)]


def _is_unequal(part: Filter) -> bool:
    return isinstance(part, Test) and part.kind == "range" and part.function == NOT_EQUAL


def _to_alternative(part: Filter, types: Types) -> BooleanExpression:
    if not _is_unequal(part):
        return to_expression(part, types)
    test = cast("Test", part)
    return _compare(test.column, NOT_EQUAL, test.high, types)


def _to_predicate(test: Test, types: Types) -> BooleanExpression:
    match test.kind:
        case "is_null":
            return is_null(test.column)
        case "not_null":
            return not_null(test.column)
        case "prefix":
            [prefix] = test.values
            return starts_with(test.column, str(prefix)) if prefix else not_null(test.column)
        case "range":
            return _to_range(test.column, _range_ends(test), types)
        case "eq" | "in":
            return _to_list(test, types)
    return ANY_ROW


def _to_list(test: Test, types: Types) -> BooleanExpression:
    if len(test.values) > APART:
        ordered = sorted(cast("Sequence[Any]", test.values))
        return _to_range(test.column, [(">=", ordered[0]), ("<=", ordered[-1])], types)
    return any_of([_compare(test.column, "=", value, types) for value in test.values])


def _range_ends(test: Test) -> list[tuple[str, Any]]:
    low = [(">=" if test.low_inclusive else ">", test.low)] if test.low is not None else []
    return [*low, *([("<=" if test.high_inclusive else "<", test.high)] if test.high is not None else [])]


def _to_range(column: str, ends: list[tuple[str, Any]], types: Types) -> BooleanExpression:
    if isinstance(types.get(column), BooleanType):
        return ANY_ROW
    if len(ends) == 1:
        return _compare(column, *ends[0], types)
    return all_of([_compare_number(column, operator, value, types) for operator, value in ends])


def _compare(column: str, operator: str, value: Any, types: Types) -> BooleanExpression:
    plain = _compare_number(column, operator, value, types)
    # DuckDB orders NaN after every number. Iceberg's bounds exclude NaN.
    is_real = isinstance(types.get(column), DoubleType | FloatType)
    return Or(plain, is_nan(column)) if is_real and operator in {">", ">=", "<>"} else plain


def _compare_number(column: str, operator: str, value: Any, types: Types) -> BooleanExpression:
    limits = RANGES.get(type(types.get(column)))
    if limits is None or limits[0] <= value <= limits[1]:
        return compare_column(column, operator, _to_literal(value, types.get(column)))
    is_always = operator == NOT_EQUAL or operator in ({"<", "<="} if value > 0 else {">", ">="})
    return not_null(column) if is_always else AlwaysFalse()


def _to_literal(value: Any, kind: IcebergType | None) -> Any:
    if isinstance(value, datetime):
        return TimestampLiteral(timestamptz_to_micros(value.isoformat()) if value.tzinfo else datetime_to_micros(value))
    return DateLiteral(date_to_days(value)) if isinstance(value, date) and isinstance(kind, DateType) else value
