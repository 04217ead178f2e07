"""What a condition says about the columns of one table, as an Iceberg expression.

Every expression here is true for all rows for which the condition is true, and perhaps for more. What can't be said
becomes `AlwaysTrue`. Iceberg's expressions know no third truth value, so a condition and its negation are walked apart
and nothing is ever negated afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, Or
from pyiceberg.types import BooleanType, StringType
from sqlglot import exp

from neve.query.scan.comparisons import compare, members
from neve.query.scan.constants import is_text
from neve.query.scan.expressions import (
    MIRRORED,
    NOTHING,
    OPPOSITE,
    all_of,
    any_of,
    is_null,
    not_null,
    said,
    starts_with,
)
from neve.query.scan.terms import term_of

if TYPE_CHECKING:
    from pyiceberg.types import NestedField

Resolve = Callable[[exp.Column], "NestedField | None"]

OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
WILDCARDS = "%_"


def implied(node: exp.Expr, resolve: Resolve, *, truth: bool = True) -> BooleanExpression:
    """What holds for every row for which a condition is true (or false); `resolve` finds the columns that count."""
    if isinstance(node, exp.Paren | exp.Not):
        return implied(node.this, resolve, truth=truth == isinstance(node, exp.Paren))
    if isinstance(node, exp.And | exp.Or):
        parts = [implied(part, resolve, truth=truth) for part in node.flatten(unnest=False)]
        return all_of(parts) if isinstance(node, exp.And) == truth else any_of(parts)
    reader = _READERS.get(type(node))
    return reader(node, resolve, truth) if reader else NOTHING


def _value(node: exp.Expr, _: Resolve, truth: bool) -> BooleanExpression:
    """TRUE, FALSE or NULL."""
    is_so = isinstance(node, exp.Boolean) and bool(node.this) == truth
    return NOTHING if is_so else AlwaysFalse()


def _flag(node: exp.Expr, resolve: Resolve, truth: bool) -> BooleanExpression:
    field = resolve(node) if isinstance(node, exp.Column) else None
    return said(field.name, "=", truth) if field and isinstance(field.field_type, BooleanType) else NOTHING


def _comparison(node: exp.Expr, resolve: Resolve, truth: bool) -> BooleanExpression:
    operator = OPERATORS[type(node)]
    left, right = node.this, node.expression
    term = term_of(left, resolve)
    if term is None:
        term, right, operator = term_of(right, resolve), left, MIRRORED[operator]
    if term is None:
        return NOTHING
    return compare(term, operator if truth else OPPOSITE[operator], [right])


def _same(node: exp.Expr, resolve: Resolve, truth: bool) -> BooleanExpression:
    """IS NOT DISTINCT FROM a value; null is like null."""
    if not truth or isinstance(node.expression, exp.Null) or isinstance(node.this, exp.Null):
        return NOTHING
    for side, other in ((node.this, node.expression), (node.expression, node.this)):
        term = term_of(side, resolve)
        if term is not None:
            found = compare(term, "=", [other])
            return NOTHING if isinstance(found, AlwaysFalse) else found
    return NOTHING


def _between(node: exp.Expr, resolve: Resolve, truth: bool) -> BooleanExpression:
    term = term_of(node.this, resolve)
    low, high = node.args["low"], node.args["high"]
    if term is None or node.args.get("symmetric"):
        return NOTHING
    if truth:
        return And(compare(term, ">=", [low, high]), compare(term, "<=", [high, low]))
    return Or(compare(term, "<", [low, high]), compare(term, ">", [high, low]))


def _in(node: exp.Expr, resolve: Resolve, truth: bool) -> BooleanExpression:
    unusual = any(node.args.get(key) for key in ("query", "unnest", "field", "is_global"))
    term = None if unusual or not node.expressions else term_of(node.this, resolve)
    return members(term, node.expressions, truth=truth) if term else NOTHING


def _is(node: exp.Expr, resolve: Resolve, truth: bool) -> BooleanExpression:
    column = node.this.unnest()
    if isinstance(node.expression, exp.Null):
        field = resolve(column) if isinstance(column, exp.Column) else None
        if field is None:
            return NOTHING
        return is_null(field.name) if truth else not_null(field.name)
    if isinstance(node.expression, exp.Boolean) and truth:
        return implied(node.this, resolve, truth=bool(node.expression.this))
    return NOTHING


def _like(node: exp.Expr, resolve: Resolve, truth: bool) -> BooleanExpression:
    if bool(node.args.get("negate")) == truth or not is_text(node.expression):
        return NOTHING
    pattern = node.expression.unnest().name
    places = [pattern.index(wildcard) for wildcard in WILDCARDS if wildcard in pattern]
    return _prefixed(node.this, pattern[: min(places, default=len(pattern))], resolve)


def _starts_with(node: exp.Expr, resolve: Resolve, truth: bool) -> BooleanExpression:
    is_known = truth and is_text(node.expression)
    return _prefixed(node.this, node.expression.unnest().name, resolve) if is_known else NOTHING


def _prefixed(node: exp.Expr, prefix: str, resolve: Resolve) -> BooleanExpression:
    column = node.unnest()
    field = resolve(column) if isinstance(column, exp.Column) else None
    if field is None or not isinstance(field.field_type, StringType):
        return NOTHING
    return starts_with(field.name, prefix) if prefix else not_null(field.name)


_Reader = Callable[[exp.Expr, Resolve, bool], BooleanExpression]
_READERS: dict[type[exp.Expr], _Reader] = {
    **dict.fromkeys(OPERATORS, _comparison),
    exp.Column: _flag,
    exp.Boolean: _value,
    exp.Null: _value,
    exp.NullSafeEQ: _same,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Like: _like,
    exp.StartsWith: _starts_with,
}
