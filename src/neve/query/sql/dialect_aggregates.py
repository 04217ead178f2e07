"""Functions of many rows, for Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.build import call, double, is_null, text, when
from neve.query.sql.dialect_arguments import need
from neve.query.sql.kinds import kind
from neve.query.sql.portable import NotPortable

if TYPE_CHECKING:
    from neve.query.sql.dialect_arguments import Builder


def _summed(node: exp.Expr) -> exp.Expr:
    """Integers are summed as decimals: a sum of nanoseconds soon leaves 64 bits."""
    of = exp.Distinct(expressions=[_summand(node.expressions[0])]) if isinstance(node, exp.Distinct) else _summand(node)
    return exp.Sum(this=of)


def _summand(node: exp.Expr) -> exp.Expr:
    if kind(node) == "int":
        return exp.cast(node.copy(), exp.DataType.build("DECIMAL(20, 0)"))
    return need(node, "float", "decimal")


def _averaged(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Distinct):
        return exp.Avg(this=exp.Distinct(expressions=[double(node.expressions[0])]))
    return exp.Avg(this=double(need(node, "int", "float", "decimal")))


def _by(name: str) -> Builder:
    def build(node: exp.Expr, order: exp.Expr) -> exp.Expr:
        """DuckDB leaves out rows where either is null, Spark only those without an order."""
        return call(name, node, when(is_null(node), exp.Null(), order))

    return build


def _quantile(node: exp.Expr, share: exp.Expr) -> exp.Expr:
    return call("PERCENTILE", double(need(node, "int", "float")), share)


def _discrete(node: exp.Expr, share: exp.Expr) -> exp.Expr:
    if not isinstance(share, exp.Literal) or kind(node) != "float":
        raise NotPortable("quantile_disc of several shares, or of values that are not floating-point numbers")
    order = exp.Order(expressions=[exp.Ordered(this=node)])
    return exp.WithinGroup(this=call("PERCENTILE_DISC", share), expression=order)


def _text_list(node: exp.Expr, separator: exp.Expr | None = None) -> exp.Expr:
    """Only with an order is the text the same each time."""
    order = node if isinstance(node, exp.Order) else separator
    if not isinstance(order, exp.Order):
        raise NotPortable("string_agg without ORDER BY")
    item, between = (order.this, text(",")) if order is node else (node, order.this)
    if isinstance(item, exp.Distinct):
        [item, *rest] = item.expressions
        between = rest[0] if rest else between
        item = exp.Distinct(expressions=[item.copy()])
    sorting = exp.Order(expressions=[part.copy() for part in order.expressions])
    return exp.WithinGroup(this=call("LISTAGG", item.copy(), between.copy()), expression=sorting)


BUILDERS: dict[str, Builder] = {
    "count": lambda *of: exp.Count(this=of[0] if of else exp.Star()),
    "count_star": lambda: exp.Count(this=exp.Star()),
    "sum": _summed,
    **dict.fromkeys(("avg", "mean"), _averaged),
    **dict.fromkeys(("arg_max", "argmax", "max_by"), _by("MAX_BY")),
    **dict.fromkeys(("arg_min", "argmin", "min_by"), _by("MIN_BY")),
    "median": lambda node: _quantile(node, exp.Literal.number("0.5")),
    "quantile_cont": _quantile,
    "quantile_disc": _discrete,
    **dict.fromkeys(("string_agg", "group_concat", "listagg"), _text_list),
}
