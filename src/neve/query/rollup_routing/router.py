"""Route SELECTs over metric points to rollups.

A SELECT that aggregates `value` over `metrics` reads from `metrics_1d`, `metrics_1h`, `metrics_5m` and `metrics_1m`
as far as their windows are within its time range and up to date, the longest windows first. The rest (ragged ends,
open windows, windows that are about to be recomputed) is read from points. All is one statement: the table of points
becomes a derived table of partial results (sum, min, max and count for each row of a rollup and for each remaining
point), and aggregates of values become aggregates of those. The result is the same, except for the order in which
floats are added up, if

- the SELECT reads `metrics` alone, and fixes `metric_name` and `metric_type`: to gauges, or to sums that are not
  monotonic (for monotonic sums, rollups have the increase, for points of any temporality);
- everything else in it refers to columns and attributes that the rollups of these metrics keep, to time in buckets of
  whole windows, and to sum, min, max, avg and count of `value`.

Rollups aggregate records and values, and so do results from them: a record that was received twice counts once, and
points without a value, NaN and infinite values are ignored. Points are read with the same rule for values, so that a
result does not depend on the part of it that came from rollups. A record that was received twice and is still read
from points counts twice until its window is rolled up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, cast

from sqlglot import exp

from neve.query.request import TimeRange
from neve.query.rollup_routing.expressions import TIME, VALUE, describe_columns
from neve.query.rollup_routing.point_query import (
    FOREVER,
    intersect_ranges,
    is_about_points,
    micros_of,
    parse_point_query,
    subtract_ranges,
    time_condition,
    whole_windows,
)
from neve.query.sql.statement import name_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from neve.query.rollup_routing.point_query import PointQuery, Range
    from neve.query.sql.statement import Statement


# The table of points becomes a derived table of partial results: for each row of a rollup, and for each point that is
# in no such row, its sum, its smallest and largest value, and the number of its values. Aggregates of values become
# aggregates of those.

PARTIALS = {"sum": "rolled_sum", "min": "rolled_min", "max": "rolled_max", "count": "rolled_count"}
# Rollups do not contain NaN, infinite values or nulls. In both engines NaN is greater than any number.
LARGEST = exp.Literal.number("1.7976931348623157e308")


def read_from_rollups(
    question: PointQuery, parts: Mapping[str, Sequence[Range]], rest: Sequence[Range], numbers: Iterator[int]
) -> None:
    """Rewrite a SELECT to read some time ranges from rollups, by their table names, and the rest from points."""
    scope = question.table.alias_or_name
    branches = [_branch(question, table, time, _rollup_partials(scope), []) for table, time in parts.items()]
    if rest:
        value = _column(VALUE, scope)
        has_value = exp.LTE(this=exp.Abs(this=value), expression=LARGEST.copy())
        branches.append(_branch(question, question.table.name, rest, _point_partials(value), [has_value]))
    first, *others = [table for branch in branches for table in branch.find_all(exp.Table)]
    first.meta["scan"] = question.table.meta["scan"]
    for other in others:
        other.meta["scan"] = next(numbers)
    for name, aggregate in question.terms.aggregates:
        aggregate.replace(_merge_partials(name, aggregate, scope))
    source = exp.union(*branches, distinct=False) if others else branches[0]
    question.table.replace(source.subquery(exp.TableAlias(this=_quote(scope))))
    question.select.set("where", None)


def keep_names(select: exp.Select, names: Sequence[str]) -> None:
    """Give the unnamed columns of a SELECT the names that they had before the rewrite."""
    for name, output in zip(names, list(select.expressions), strict=True):
        if not isinstance(output, (exp.Alias, exp.Column)):
            alias = exp.Alias(alias=_quote(name))
            output.replace(alias)
            alias.set("this", output)


def _branch(
    question: PointQuery,
    table: str,
    time: Sequence[Range],
    partials: Mapping[str, exp.Expr],
    further: list[exp.Expr],
) -> exp.Select:
    """Return partial results of some time ranges from one table, with the conditions of the query."""
    scope = question.table.alias_or_name
    columns = [_column(name, scope) for name in sorted(question.columns)]
    results = [exp.Alias(this=value, alias=_quote(PARTIALS[name])) for name, value in partials.items()]
    during = time_condition(time, _column(TIME, scope))
    conditions = [condition.copy() for condition in question.conditions] + further + ([during] if during else [])
    return exp.select(*columns, *results).from_(_table(table, scope)).where(*conditions, copy=False)


def _rollup_partials(scope: str) -> dict[str, exp.Expr]:
    return {name: _column(name, scope) for name in PARTIALS}


def _point_partials(value: exp.Expr) -> dict[str, exp.Expr]:
    return {name: value.copy() for name in ("sum", "min", "max")} | {"count": exp.Literal.number(1)}


def _merge_partials(name: str, aggregate: exp.Expr, scope: str) -> exp.Expr:
    """Return the aggregate of partial results that equals an aggregate of values."""
    where = aggregate.expression if isinstance(aggregate, exp.Filter) else None

    def over(function: type[exp.AggFunc], partial: str) -> exp.Expr:
        call = function(this=_column(PARTIALS[partial], scope))
        return exp.Filter(this=call, expression=where.copy()) if where else call

    if name == "count":
        counted = exp.Coalesce(this=over(exp.Sum, "count"), expressions=[exp.Literal.number(0)])
        return exp.cast(counted, exp.DType.BIGINT)
    if name == "avg":
        average = exp.Div(this=over(exp.Sum, "sum"), expression=over(exp.Sum, "count"), typed=False, safe=False)
        return exp.Paren(this=average)
    function = {"sum": exp.Sum, "min": exp.Min, "max": exp.Max}[name]
    return over(function, name)


def _table(name: str, scope: str) -> exp.Table:
    return exp.Table(this=_quote(name), alias=exp.TableAlias(this=_quote(scope)))


def _column(name: str, scope: str) -> exp.Column:
    return exp.Column(this=_quote(name), table=_quote(scope))


def _quote(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


# A SELECT that aggregates `value` over `metrics` reads from `metrics_1d`, `metrics_1h`, `metrics_5m` and `metrics_1m`
# as far as their windows are within its time range and up to date, the longest windows first. The rest (ragged ends,
# open windows, windows that are about to be recomputed) is read from points. All is one statement. The result is the
# same, except for the order in which floats are added up, if
#
# - the SELECT reads `metrics` alone, and fixes `metric_name` and `metric_type`: to gauges, or to sums that are not
#   monotonic (for monotonic sums, rollups have the increase, for points of any temporality);
# - everything else in it refers to columns and attributes that the rollups of these metrics keep, to time in buckets
#   of whole windows, and to sum, min, max, avg and count of `value`.
#
# Rollups aggregate records and values, and so do results from them: a record that was received twice counts once, and
# points without a value, NaN and infinite values are ignored. Points are read with the same rule for values, so that a
# result does not depend on the part of it that came from rollups. A record that was received twice and is still read
# from points counts twice until its window is rolled up.

MICROS = 1_000_000
ANY_TIME = TimeRange()


@dataclass(frozen=True)
class Coverage:
    """Coverage of one level: the time range of final, up-to-date windows, and the attributes that it keeps.

    `keeps` is called with a metric, `attributes` or `resource_attrs`, and a key.
    """

    table: str
    seconds: int
    ranges: tuple[tuple[int, int], ...]
    keeps: Callable[[str, str, str], bool]

    @property
    def micros(self) -> int:
        """Return the length of its windows."""
        return self.seconds * MICROS

    def suits(self, question: PointQuery) -> bool:
        """Return whether its rows distinguish everything that the query distinguishes."""
        terms = question.terms
        keys_kept = all(self.keeps(metric, *key) for metric in question.metrics for key in terms.keys)
        return keys_kept and all(bucket % self.micros == 0 for bucket in terms.buckets)


def route(statement: Statement, coverages: Sequence[Coverage], time: TimeRange = ANY_TIME) -> tuple[Statement, str]:
    """Return the statement that reads from rollups where it can, and the names of their tables.

    Else return it unchanged. `time` is the time range of the request, which bounds every table.
    """
    bounds = micros_of(time.since, -FOREVER), micros_of(time.until, FOREVER)
    tree = name_columns(statement.tree.copy())  # names come from the original text
    numbers = count(1 + max((table.meta.get("scan", -1) for table in tree.find_all(exp.Table)), default=-1))
    used: dict[str, None] = {}
    for select in list(tree.find_all(exp.Select))[::-1]:  # the inner ones first
        found = _route_select(select, coverages, bounds, numbers) if is_about_points(select) else None
        if found is None:
            continue
        routed, tables = found
        used |= dict.fromkeys(tables)
        if select is tree:
            tree = routed
        else:
            select.replace(routed)
    return (replace(statement, tree=cast("exp.Expression", tree)), ", ".join(used)) if used else (statement, "")


def _route_select(
    select: exp.Select, coverages: Sequence[Coverage], bounds: Range, numbers: Iterator[int]
) -> tuple[exp.Select, list[str]] | None:
    """Return a SELECT that reads from rollups, and their tables, or `None` if it must stay unchanged."""
    question = parse_point_query(select.copy())
    if question is None:
        return None
    parts, rest = _split_time(question, coverages, intersect_ranges(question.asked, bounds))
    before = describe_columns(question.select) if parts else None
    if before is None:
        return None
    keep_names(question.select, [name for name, _type in before])
    read_from_rollups(question, parts, rest, numbers)
    return (question.select, list(parts)) if describe_columns(question.select) == before else None


def _split_time(
    question: PointQuery, coverages: Sequence[Coverage], asked: Range
) -> tuple[dict[str, list[Range]], list[Range]]:
    """Return the time ranges to read from each rollup, and the rest to read from points."""
    parts: dict[str, list[Range]] = {}
    rest = [asked] if asked[0] < asked[1] else []
    suitable = [coverage for coverage in coverages if coverage.suits(question)]
    for coverage in sorted(suitable, key=lambda one: -one.seconds):
        taken = whole_windows(rest, coverage.ranges, coverage.micros)
        if taken:
            parts[coverage.table] = taken
            rest = subtract_ranges(rest, taken)
    return parts, rest
