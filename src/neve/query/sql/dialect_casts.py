"""Casts for Spark: the same value, or the same error."""

from __future__ import annotations

from sqlglot import exp

from neve.query.sql.build import call, failing, is_null, text
from neve.query.sql.kinds import kind
from neve.query.sql.portable import NotPortable

INTEGERS = {exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT}
FLOATS = {exp.DType.DOUBLE, exp.DType.FLOAT}
PLAIN = {
    exp.DType.BOOLEAN: {"bool", "int", "text", "null"},
    exp.DType.DATE: {"date", "timestamptz", "timestamp", "text", "null"},
    exp.DType.TIMESTAMPTZ: {"date", "timestamptz", "timestamp", "text", "null"},
    exp.DType.TIMESTAMPNTZ: {"date", "timestamptz", "timestamp", "text", "null"},
    exp.DType.TIMESTAMP: {"date", "timestamptz", "timestamp", "text", "null"},
    exp.DType.DECIMAL: {"int", "decimal", "null"},
    exp.DType.TEXT: {"text", "int", "bool", "date", "null"},
    exp.DType.VARCHAR: {"text", "int", "bool", "date", "null"},
}


def cast(node: exp.Expr) -> exp.Expr:
    """A cast of DuckDB as one of Spark."""
    to, of = node.args["to"], kind(node.this)
    target = to.this
    if to.expressions and target != exp.DType.DECIMAL:
        raise NotPortable("a cast to a nested type")
    if target in INTEGERS:
        return _to_integer(node, of)
    if target in FLOATS:
        return _to_float(node, of)
    if of not in PLAIN.get(target, set()):
        raise NotPortable(f"a cast from {of or 'a type that can' + chr(39) + 't be told'} to {to.sql('duckdb')}")
    return node


def _to_integer(node: exp.Expr, of: str) -> exp.Expr:
    """Fractions are rounded, in text too; doubles to the even number."""
    kept = {"int", "bool", "null"}
    if of in kept:
        return node
    safe = isinstance(node, exp.TryCast)
    inner = node.this
    if of in {"float", "decimal"}:
        rounded = call("RINT" if of == "float" else "ROUND", inner.copy())
        return type(node)(this=rounded, to=node.args["to"].copy(), safe=safe or None)
    if of != "text":
        raise NotPortable("a cast to an integer of a value whose type can't be told")
    whole = exp.TryCast(this=inner.copy(), to=node.args["to"].copy(), safe=True)
    number = exp.TryCast(this=inner.copy(), to=exp.DataType.build("DECIMAL(38, 10)"), safe=True)
    fraction = exp.TryCast(this=call("ROUND", number), to=node.args["to"].copy(), safe=True)
    tried = [whole, fraction]
    if safe:
        return call("COALESCE", *tried)
    wrong = failing("could not convert text to an integer", node.args["to"].this)
    nothing = exp.If(this=is_null(inner), true=exp.Null())
    return exp.Case(ifs=[nothing], default=call("COALESCE", *tried, wrong))


def _to_float(node: exp.Expr, of: str) -> exp.Expr:
    if of not in {"int", "float", "decimal", "text", "bool", "null", ""}:
        raise NotPortable("a cast to a number of a value that is none")
    if of == "text" and isinstance(node, exp.Cast) and node.this.is_string:
        return exp.cast(text(node.this.name), node.args["to"].this)
    return node
