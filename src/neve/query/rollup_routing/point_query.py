"""A SELECT over metric points that rollups may answer: its metrics, its time range, its conditions and its aggregates.

Time ranges are half open, in microseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.model.tables import METRICS
from neve.predicate.names import fold
from neve.query.rollup_routing.expressions import (
    AGGREGATES,
    TIME,
    VALUE,
    ExpressionCheck,
    evaluate_moment,
    function_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Range = tuple[int, int]

FOREVER = 2**62
ALWAYS: Range = (-FOREVER, FOREVER)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOST_RANGES = 32  # per table; the remaining ranges are read from finer tables


def micros_of(moment: datetime | None, otherwise: int) -> int:
    """Return a time in microseconds since 1970. A time without a zone is in UTC."""
    if moment is None:
        return otherwise
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (known - EPOCH) // timedelta(microseconds=1)


def intersect_ranges(one: Range, other: Range) -> Range:
    """Return the intersection of two ranges. It may be empty."""
    return max(one[0], other[0]), min(one[1], other[1])


def whole_windows(free: Iterable[Range], covered: Iterable[Range], micros: int) -> list[Range]:
    """Return the whole windows within both a covered and a free range. Of many ranges, return the longest.

    >>> whole_windows([(5, 95)], [(0, 50), (60, 100)], 10)
    [(10, 50), (60, 90)]
    """
    covers = list(covered)
    found = [_align(intersect_ranges(one, other), micros) for one in free for other in covers]
    longest = sorted((part for part in found if part[0] < part[1]), key=lambda part: part[0] - part[1])
    return sorted(longest[:MOST_RANGES])


def subtract_ranges(ranges: Iterable[Range], taken: Sequence[Range]) -> list[Range]:
    """Subtract ranges from ranges.

    >>> subtract_ranges([(0, 100)], [(10, 20), (90, 100)])
    [(0, 10), (20, 90)]
    """
    left = list(ranges)
    for start, end in taken:
        parts = [part for first, last in left for part in ((first, min(last, start)), (max(first, end), last))]
        left = [part for part in parts if part[0] < part[1]]
    return left


def time_condition(ranges: Sequence[Range], column: exp.Expr) -> exp.Expr | None:
    """Return the condition that a time column is in one of some ranges, or `None` if it always is."""
    parts = [_range_condition(part, column) for part in ranges]
    known = [part for part in parts if part is not None]
    return exp.or_(*known) if len(known) == len(parts) else None


def _align(part: Range, micros: int) -> Range:
    start, end = part
    return (
        start if start <= -FOREVER else -(-start // micros) * micros,
        end if end >= FOREVER else end // micros * micros,
    )


def _range_condition(part: Range, column: exp.Expr) -> exp.Expr | None:
    start, end = part
    sides: list[exp.Expr] = []
    if start > -FOREVER:
        sides.append(exp.GTE(this=column.copy(), expression=_moment(start)))
    if end < FOREVER:
        sides.append(exp.LT(this=column.copy(), expression=_moment(end)))
    return exp.and_(*sides) if sides else None


def _moment(micros: int) -> exp.Expr:
    text = (EPOCH + timedelta(microseconds=micros)).isoformat(sep=" ")
    return exp.cast(exp.Literal.string(text), exp.DataType.Type.TIMESTAMPTZ)


CLAUSES = frozenset({"expressions", "from_", "where", "group", "having", "qualify", "order", "limit", "offset"})
HARMLESS = frozenset({"with_", "distinct"})
COMPARISONS: dict[type[exp.Expr], str] = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.EQ: "="}
MIRRORED = str.maketrans("<>", "><")
GAUGE, SUM = "gauge", "sum"


@dataclass(frozen=True)
class PointQuery:
    """A SELECT over points alone: its metrics, its time range, and its further conditions."""

    select: exp.Select
    table: exp.Table
    metrics: frozenset[str]
    asked: Range
    conditions: tuple[exp.Expr, ...]
    terms: ExpressionCheck
    columns: frozenset[str]  # that the SELECT reads beside those of its WHERE


def is_about_points(select: exp.Select) -> bool:
    """Return whether a SELECT reads points only."""
    return _points_table(select) is not None


def parse_point_query(select: exp.Select) -> PointQuery | None:
    """Analyze a SELECT. Return `None` if rollups are not known to give the same result."""
    table = _points_table(select)
    if table is None or not _is_plain(select):
        return None
    terms = ExpressionCheck(fold(table.alias_or_name), _aliases(select))
    if not _is_aggregation(select, terms):
        return None
    columns = frozenset(terms.columns)
    where = select.args.get("where")
    asked, conditions = ALWAYS, []
    for condition in _conjuncts(where.this) if where else []:
        time = _condition_range(condition, terms)
        if time is not None:
            asked = intersect_ranges(asked, time)
        elif terms.fits(condition):
            conditions.append(condition)
        else:
            return None
    metrics = _fixed_texts(conditions, "metric_name", terms)
    if not metrics or not _keeps_values(conditions, terms) or asked[0] >= asked[1]:
        return None
    return PointQuery(select, table, metrics, asked, tuple(conditions), terms, columns)


def _points_table(select: exp.Select) -> exp.Table | None:
    """Return the table of points if a SELECT reads nothing else."""
    source = select.args.get("from_")
    table = source.this if source else None
    if not isinstance(table, exp.Table) or "scan" not in table.meta or fold(table.name) != METRICS.name:
        return None
    given = {name for name, value in table.args.items() if value}
    alias = table.args.get("alias")
    return table if given <= {"this", "db", "catalog", "alias"} and not (alias and alias.columns) else None


def _is_plain(select: exp.Select) -> bool:
    distinct = select.args.get("distinct")
    given = {name for name, value in select.args.items() if value}
    return given <= CLAUSES | HARMLESS and not (distinct and distinct.args.get("on"))


def _aliases(select: exp.Select) -> frozenset[str]:
    return frozenset(fold(part.alias) for part in select.expressions if isinstance(part, exp.Alias))


def _is_aggregation(select: exp.Select, terms: ExpressionCheck) -> bool:
    """Return whether all clauses except WHERE use only aggregates of values and columns that rollups keep."""
    group = select.args.get("group")
    if group and not terms.fits_groups(group):
        return False
    if any(fold(part.alias) == VALUE and not _has_aggregate(part) for part in select.expressions):
        return False  # `value` could be the column or this name
    clauses = [select.args.get(name) for name in ("having", "qualify", "order", "limit", "offset")]
    parts = [*select.expressions, *(clause for clause in clauses if clause)]
    return all(terms.fits(part, grouped=True) for part in parts) and bool(terms.aggregates)


def _has_aggregate(node: exp.Expr) -> bool:
    return any(function_name(part) in AGGREGATES for part in node.walk())


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    plain = node.unnest()
    if not isinstance(plain, exp.And):
        return [plain]
    return [*_conjuncts(plain.this), *_conjuncts(plain.expression)]


def _condition_range(node: exp.Expr, terms: ExpressionCheck) -> Range | None:
    """Return the time range of a condition, or `None` if it does not compare the time with constants."""
    if isinstance(node, exp.Between) and terms.is_column(node.this, TIME) and not node.args.get("symmetric"):
        low, high = (evaluate_moment(node.args[side]) for side in ("low", "high"))
        return None if low is None or high is None else (low, high + 1)
    comparison = COMPARISONS.get(type(node))
    if comparison is None or not isinstance(node, exp.Binary):
        return None
    if terms.is_column(node.this, TIME):
        at = evaluate_moment(node.expression)
    elif terms.is_column(node.expression, TIME):
        comparison, at = comparison.translate(MIRRORED), evaluate_moment(node.this)
    else:
        return None
    return None if at is None else _comparison_range(comparison, at)


def _comparison_range(comparison: str, at: int) -> Range:
    """Return the time range of a comparison with a time. The next time is a microsecond later."""
    start = {">": at + 1, ">=": at, "=": at}.get(comparison, -FOREVER)
    end = {"<": at, "<=": at + 1, "=": at + 1}.get(comparison, FOREVER)
    return start, end


def _fixed_texts(conditions: list[exp.Expr], name: str, terms: ExpressionCheck) -> frozenset[str]:
    """Return the texts that the conditions allow for a column, or none if it is not restricted to a list."""
    for condition in conditions:
        values = _texts(condition)
        if values and terms.is_column(condition.this, name):
            return frozenset(values)
    return frozenset()


def _texts(condition: exp.Expr) -> list[str]:
    """Return the texts on the right side of `=` or `IN`."""
    if isinstance(condition, exp.EQ):
        given = [condition.expression]
    elif isinstance(condition, exp.In) and not condition.args.get("query"):
        given = condition.expressions
    else:
        return []
    return [part.name for part in given] if all(part.is_string for part in given) else []


def _keeps_values(conditions: list[exp.Expr], terms: ExpressionCheck) -> bool:
    """Return whether the conditions select only points whose values rollups add up.

    Those are gauges and sums that are not monotonic. For a monotonic sum, rollups add up the increase, and their rows
    do not distinguish delta points from cumulative ones.
    """
    kinds = _fixed_texts(conditions, "metric_type", terms)
    is_level = any(_requires_not_monotonic(condition, terms) for condition in conditions)
    return kinds == {GAUGE} or (bool(kinds) and kinds <= {GAUGE, SUM} and is_level)


def _requires_not_monotonic(condition: exp.Expr, terms: ExpressionCheck) -> bool:
    inner = condition.this.unnest() if isinstance(condition, exp.Not) else condition
    if isinstance(condition, exp.Not) and terms.is_column(inner, "is_monotonic"):
        return True
    if not isinstance(inner, (exp.EQ, exp.Is)) or not isinstance(inner.expression, exp.Boolean):
        return False
    expected = isinstance(condition, exp.Not)
    return terms.is_column(inner.this, "is_monotonic") and bool(inner.expression.this) is expected
