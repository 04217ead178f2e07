"""Functions of numbers, for Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.build import call, double, failing, integer, text, when
from neve.query.sql.dialect_arguments import check_alike, need, positive
from neve.query.sql.kinds import kind

if TYPE_CHECKING:
    from neve.query.sql.dialect_arguments import Builder


def _rounded(node: exp.Expr, digits: exp.Expr | None = None) -> exp.Expr:
    """DuckDB rounds a product of the number, Spark its decimal digits: 1.005 shows the difference."""
    if kind(node) in {"decimal", "int"}:
        return call("ROUND", node, *([digits] if digits is not None else []))
    need(node, "float")
    if digits is None:
        return call("ROUND", node)
    scale = exp.Literal.number(f"1e{positive(digits, 0)}")
    product = exp.Mul(this=exp.Paren(this=node), expression=scale)
    return exp.Paren(this=exp.Div(this=call("ROUND", product), expression=scale.copy()))


def _stepped(name: str) -> Builder:
    def build(node: exp.Expr) -> exp.Expr:
        """Spark gives a bigint, and 0 for NaN; beyond 9e15 a double has no fraction."""
        if kind(node) == "int":
            return double(node)
        need(node, "float")
        small = exp.LT(this=call("ABS", node.copy()), expression=exp.Literal.number("9e15"))
        return when(small, double(call(name, node.copy())), node.copy())

    return build


def _above(name: str, comparison: type[exp.Binary], words: str) -> Builder:
    def build(node: exp.Expr) -> exp.Expr:
        number = double(node)
        refused = comparison(this=number, expression=exp.Literal.number("0e0"))
        return when(refused, failing(words, exp.DType.DOUBLE), call(name, number.copy()))

    return build


def _modulo(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    need(left, "int")
    need(right, "int")
    nothing = call("NULLIF", right, integer(0))
    return exp.Paren(this=exp.Mod(this=exp.Paren(this=left), expression=nothing))


def _alike(name: str) -> Builder:
    def build(*nodes: exp.Expr) -> exp.Expr:
        check_alike(list(nodes))
        return call(name, *nodes)

    return build


BUILDERS: dict[str, Builder] = {
    "round": _rounded,
    "floor": _stepped("FLOOR"),
    **dict.fromkeys(("ceil", "ceiling"), _stepped("CEIL")),
    "ln": _above("LN", exp.LTE, "cannot take logarithm of a number that is not positive"),
    **dict.fromkeys(("log", "log10"), _above("LOG10", exp.LTE, "cannot take logarithm of such a number")),
    "log2": _above("LOG2", exp.LTE, "cannot take logarithm of a number that is not positive"),
    "sqrt": _above("SQRT", exp.LT, "cannot take square root of a negative number"),
    "sign": lambda node: exp.cast(call("SIGN", node), exp.DType.INT),
    "mod": _modulo,
    "isinf": lambda node: exp.EQ(this=call("ABS", double(node)), expression=double(text("Infinity"))),
    **{name: _alike(name.upper()) for name in ("coalesce", "ifnull", "nullif", "greatest", "least")},
    "if": when,
}
