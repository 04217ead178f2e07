"""The tree that reads parts of an answer from rollups and the rest from points.

The table of points becomes a derived table of partial results: for each row of a rollup, and for each point that no
such row stands for, its sum, its smallest and largest value, and how many values it has. Aggregates of values become
aggregates of those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.rolled.terms import TIME, VALUE
from neve.query.rolled.time import lies_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neve.query.rolled.question import Question
    from neve.query.rolled.time import Range

PARTIALS = {"sum": "rolled_sum", "min": "rolled_min", "max": "rolled_max", "count": "rolled_count"}
# What is NaN, infinite or null is in no rollup. For both engines NaN is more than any number.
LARGEST = exp.Literal.number("1.7976931348623157e308")


def read_from(
    question: Question, parts: Mapping[str, Sequence[Range]], rest: Sequence[Range], numbers: Iterator[int]
) -> None:
    """Change a SELECT so that it reads some time from rollups, by the names of their tables, the rest from points."""
    scope = question.table.alias_or_name
    branches = [_branch(question, table, time, _rolled(scope), []) for table, time in parts.items()]
    if rest:
        value = _column(VALUE, scope)
        has_value = exp.LTE(this=exp.Abs(this=value), expression=LARGEST.copy())
        branches.append(_branch(question, question.table.name, rest, _single(value), [has_value]))
    first, *others = [table for branch in branches for table in branch.find_all(exp.Table)]
    first.meta["scan"] = question.table.meta["scan"]
    for other in others:
        other.meta["scan"] = next(numbers)
    for name, aggregate in question.terms.aggregates:
        aggregate.replace(_merged(name, aggregate, scope))
    source = exp.union(*branches, distinct=False) if others else branches[0]
    question.table.replace(source.subquery(exp.TableAlias(this=_quoted(scope))))
    question.select.set("where", None)


def keep_names(select: exp.Select, names: Sequence[str]) -> None:
    """Give the columns of a SELECT that have no name the ones that they had before it was changed."""
    for name, output in zip(names, list(select.expressions), strict=True):
        if not isinstance(output, (exp.Alias, exp.Column)):
            alias = exp.Alias(alias=_quoted(name))
            output.replace(alias)
            alias.set("this", output)


def _branch(
    question: Question,
    table: str,
    time: Sequence[Range],
    partials: Mapping[str, exp.Expr],
    further: list[exp.Expr],
) -> exp.Select:
    """Partial results of some time from one table, on the conditions of the question."""
    scope = question.table.alias_or_name
    columns = [_column(name, scope) for name in sorted(question.columns)]
    results = [exp.Alias(this=value, alias=_quoted(PARTIALS[name])) for name, value in partials.items()]
    during = lies_in(time, _column(TIME, scope))
    conditions = [condition.copy() for condition in question.conditions] + further + ([during] if during else [])
    return exp.select(*columns, *results).from_(_table(table, scope)).where(*conditions, copy=False)


def _rolled(scope: str) -> dict[str, exp.Expr]:
    return {name: _column(name, scope) for name in PARTIALS}


def _single(value: exp.Expr) -> dict[str, exp.Expr]:
    return {name: value.copy() for name in ("sum", "min", "max")} | {"count": exp.Literal.number(1)}


def _merged(name: str, aggregate: exp.Expr, scope: str) -> exp.Expr:
    """The aggregate of partial results that gives what an aggregate of values gave."""
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
    return exp.Table(this=_quoted(name), alias=exp.TableAlias(this=_quoted(scope)))


def _column(name: str, scope: str) -> exp.Column:
    return exp.Column(this=_quoted(name), table=_quoted(scope))


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
