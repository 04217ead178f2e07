"""Operators and casts for Spark: arithmetic, comparisons, elements of lists, windows.

Each gives the same value as in DuckDB, or the same error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.dialect import call, double, integer, is_null, raise_error, text, when
from neve.query.sql.spark.functions import rebuild_call
from neve.query.sql.spark.text_functions import concatenate
from neve.query.sql.type_inference import NUMBERS, TIMES, NotPortable, check_alike, kind, name_of

if TYPE_CHECKING:
    from collections.abc import Callable


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


def rewrite_cast(node: exp.Expr) -> exp.Expr:
    """Translate a cast of DuckDB to Spark."""
    to, of = node.args["to"], kind(node.this)
    target = to.this
    if to.expressions and target != exp.DType.DECIMAL:
        raise NotPortable("a cast to a nested type")
    if target in INTEGERS:
        return _to_integer(node, of)
    if target in FLOATS:
        return _to_float(node, of)
    if of not in PLAIN.get(target, set()):
        raise NotPortable(f"a cast from {of or 'an unknown type'} to {to.sql('duckdb')}")
    return node


def _to_integer(node: exp.Expr, of: str) -> exp.Expr:
    """Cast to an integer. Fractions are rounded, also in text. Doubles are rounded half to even."""
    kept = {"int", "bool", "null"}
    if of in kept:
        return node
    safe = isinstance(node, exp.TryCast)
    inner = node.this
    if of in {"float", "decimal"}:
        rounded = call("RINT" if of == "float" else "ROUND", inner.copy())
        return type(node)(this=rounded, to=node.args["to"].copy(), safe=safe or None)
    if of != "text":
        raise NotPortable("a cast to an integer of a value of an unknown type")
    whole = exp.TryCast(this=inner.copy(), to=node.args["to"].copy(), safe=True)
    number = exp.TryCast(this=inner.copy(), to=exp.DataType.build("DECIMAL(38, 10)"), safe=True)
    fraction = exp.TryCast(this=call("ROUND", number), to=node.args["to"].copy(), safe=True)
    tried = [whole, fraction]
    if safe:
        return call("COALESCE", *tried)
    wrong = raise_error("could not convert text to an integer", node.args["to"].this)
    nothing = exp.If(this=is_null(inner), true=exp.Null())
    return exp.Case(ifs=[nothing], default=call("COALESCE", *tried, wrong))


def _to_float(node: exp.Expr, of: str) -> exp.Expr:
    if of not in {"int", "float", "decimal", "text", "bool", "null", ""}:
        raise NotPortable("a cast to a number of a value that is none")
    if of == "text" and isinstance(node, exp.Cast) and node.this.is_string:
        return exp.cast(text(node.this.name), node.args["to"].this)
    return node


INT64 = 2**63
UNUSED = "\x01"  # an escape character that no pattern has: Spark's LIKE has a default one
ORDERED = {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "first_value"}
ORDERED |= {"last_value", "nth_value"}


def _division(node: exp.Expr) -> exp.Expr:
    """Divide with infinity or NaN for zero, as for floating-point numbers everywhere but in Spark."""
    above, below = double(node.this), double(node.args["expression"])
    zero = exp.Literal.number("0e0")
    infinite = exp.Case(
        ifs=[
            exp.If(
                this=exp.Or(this=exp.EQ(this=above.copy(), expression=zero.copy()), expression=call("ISNAN", above)),
                true=double(text("NaN")),
            ),
            exp.If(this=exp.GT(this=above.copy(), expression=zero.copy()), true=double(text("Infinity"))),
            exp.If(this=exp.LT(this=above.copy(), expression=zero.copy()), true=double(text("-Infinity"))),
        ]
    )
    if _is_nonzero_number(node.args["expression"]):
        return exp.Paren(this=exp.Div(this=above, expression=below))
    return when(exp.EQ(this=below, expression=zero), infinite, exp.Div(this=above.copy(), expression=below.copy()))


def _is_nonzero_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and float(node.name) != 0


def _whole_division(node: exp.Expr) -> exp.Expr:
    left, right = node.this, node.args["expression"]
    if kind(left) != "int" or kind(right) != "int":
        raise NotPortable("// of numbers that are not integers")
    below = call("NULLIF", right.copy(), integer(0))
    return exp.Paren(this=exp.IntDiv(this=exp.Paren(this=left.copy()), expression=below))


def _modulo(node: exp.Expr) -> exp.Expr:
    return rebuild_call("mod", [node.this.copy(), node.args["expression"].copy()])


def _sum(node: exp.Expr) -> exp.Expr:
    """Add times and intervals, which both engines support. Other non-numbers can be added in only one of them."""
    left, right = kind(node.this), kind(node.args["expression"])
    numbers = {left, right} <= {*NUMBERS, "null", ""}
    instants = {"timestamptz", "timestamp", "interval"}
    moved = {left, right} <= instants and "interval" in {left, right} and left != right
    if not (numbers or moved):
        raise NotPortable("arithmetic with dates, text or two times")
    return node


def _text_sum(node: exp.Expr) -> exp.Expr:
    parts = (node.this, node.args["expression"])
    if any(kind(part) not in {"text", "int", "bool", "null"} for part in parts):
        raise NotPortable("|| of values of an unknown type")
    return exp.DPipe(this=_as_text(parts[0]), expression=_as_text(parts[1]))


def _as_text(node: exp.Expr) -> exp.Expr:
    return node.copy() if kind(node) == "text" else exp.cast(node.copy(), exp.DType.TEXT)


def _element(node: exp.Expr) -> exp.Expr:
    of, [index, *_] = kind(node.this), node.expressions
    if of == "map":
        return call("TRY_ELEMENT_AT", node.this.copy(), index.copy())
    if of.startswith("list<") and kind(index) == "int":
        if isinstance(index, exp.Literal) and index.name == "0":
            return exp.Null()
        if not isinstance(index, exp.Literal | exp.Neg):
            raise NotPortable("an element of a list by a number that is not a literal")
        return call("TRY_ELEMENT_AT", node.this.copy(), index.copy())
    if of == "struct" and index.is_string:
        return exp.Dot(this=node.this.copy(), expression=exp.to_identifier(index.name, quoted=True))
    raise NotPortable("[…] of a value of an unknown type")


def _like(node: exp.Expr) -> exp.Expr:
    pattern = node.args["expression"]
    if isinstance(node.parent, exp.Escape) or (pattern.is_string and "\\" not in pattern.name):
        return node
    return exp.Escape(this=type(node)(this=node.this.copy(), expression=pattern.copy()), expression=text(UNUSED))


def _check_comparison(node: exp.Expr) -> exp.Expr:
    """Reject comparisons of text with numbers: the engines' casts differ."""
    left, right = node.this, node.args["expression"]
    kinds = {kind(left), kind(right)}
    mixed = "text" in kinds and kinds & {*NUMBERS, "bool", "blob", "list", "map"}
    if mixed or (kinds & set(NUMBERS) and kinds & set(TIMES)):
        raise NotPortable("a comparison of text with another type")
    return node


def _number(node: exp.Expr) -> exp.Expr:
    if not node.is_string and kind(node) == "int" and (not node.name.isdigit() or int(node.name) >= INT64):
        raise NotPortable("an integer of more than 64 bits")
    return node


def _window(node: exp.Expr) -> exp.Expr:
    function = node.this
    if isinstance(function, exp.Filter) or function.find(exp.Distinct):
        raise NotPortable("FILTER or DISTINCT in a window")
    spec = node.args.get("spec")
    if spec is not None and spec.args.get("exclude"):
        raise NotPortable("EXCLUDE in a window")
    inner = function.this if isinstance(function, exp.IgnoreNulls | exp.RespectNulls) else function
    if name_of(inner) in ORDERED and not node.args.get("order") and not node.args.get("alias"):
        raise NotPortable(f"{name_of(inner)} without ORDER BY")
    return node


def _interval(node: exp.Expr) -> exp.Expr:
    if not isinstance(node.this, exp.Literal):
        raise NotPortable("an interval that is not written out")
    return node


def _at_zone(node: exp.Expr) -> exp.Expr:
    zone = node.args["zone"]
    if not zone.is_string or zone.name.upper() not in {"UTC", "ETC/UTC", "Z", "GMT"} or kind(node.this) == "":
        raise NotPortable("a time zone other than UTC")
    to = exp.DType.TIMESTAMPNTZ if kind(node.this) == "timestamptz" else exp.DType.TIMESTAMPTZ
    return exp.cast(node.this.copy(), to)


def _map(node: exp.Expr) -> exp.Expr:
    pairs = node.this.expressions if isinstance(node.this, exp.Struct) else []
    if not all(isinstance(pair, exp.PropertyEQ) for pair in pairs):
        raise NotPortable("MAP of something else than pairs")
    return call("MAP", *(part.copy() for pair in pairs for part in (pair.this, pair.expression)))


def _check_array(node: exp.Expr) -> exp.Expr:
    """Reject `[f(x) FOR x IN list IF c]` and `ARRAY(SELECT …)`, which are the only item of an array."""
    if any(isinstance(item, exp.Comprehension) for item in node.expressions):
        raise NotPortable("a list comprehension")
    if any(isinstance(item, exp.Query) and not isinstance(item, exp.Subquery) for item in node.expressions):
        raise NotPortable("ARRAY of a query")
    return node


def _concat(node: exp.Expr) -> exp.Expr:
    return concatenate(*node.expressions)


def _logic(node: exp.Expr) -> exp.Expr:
    if any(kind(part) not in {"bool", "null", ""} for part in node.iter_expressions()):
        raise NotPortable("a condition that is not a boolean")
    return node


def _branches(node: exp.Expr) -> exp.Expr:
    """Reject branches of several types: the engines do not choose the same common type."""
    if kind(node) == "":
        branches = [branch.args.get("true") for branch in node.args.get("ifs") or [node]]
        values = [*branches, node.args.get("default"), node.args.get("false")]
        check_alike([value for value in values if value is not None])
    return node


def _between(node: exp.Expr) -> exp.Expr:
    check_alike([node.this, node.args["low"], node.args["high"]])
    return node


def _check_set_operation(node: exp.Expr) -> exp.Expr:
    sides = [side.unnest() for side in (node.this, node.args["expression"])]
    if all(isinstance(side, exp.Select) for side in sides):
        for pair in zip(*(side.expressions for side in sides), strict=False):
            check_alike(list(pair))
    return node


def _membership(node: exp.Expr) -> exp.Expr:
    if node.args.get("field") or node.args.get("unnest"):
        raise NotPortable("IN of a list")
    values = node.expressions
    kinds = {kind(node.this), *(kind(value) for value in values)}
    if values and "text" in kinds and kinds & {*NUMBERS, "blob", "bool"}:
        raise NotPortable("a comparison of text with another type")
    return node


RULES: dict[type, Callable[[exp.Expr], exp.Expr]] = {
    exp.Div: _division,
    exp.IntDiv: _whole_division,
    exp.Mod: _modulo,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _sum),
    exp.DPipe: _text_sum,
    exp.Bracket: _element,
    **dict.fromkeys((exp.Like, exp.ILike), _like),
    **dict.fromkeys(
        (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ), _check_comparison
    ),
    exp.In: _membership,
    **dict.fromkeys((exp.And, exp.Or, exp.Not), _logic),
    **dict.fromkeys((exp.Case, exp.If), _branches),
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), _check_set_operation),
    exp.Between: _between,
    exp.Literal: _number,
    exp.Window: _window,
    exp.Interval: _interval,
    exp.AtTimeZone: _at_zone,
    exp.ToMap: _map,
    exp.Array: _check_array,
    exp.Concat: _concat,
    **dict.fromkeys((exp.Cast, exp.TryCast), rewrite_cast),
    exp.Pow: lambda node: call("POWER", node.this.copy(), node.args["expression"].copy()),
    exp.RegexpFullMatch: lambda node: rebuild_call(
        "regexp_full_match", [node.this.copy(), node.args["expression"].copy()]
    ),
}
