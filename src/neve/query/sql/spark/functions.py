"""Functions for Spark: the same function, another one, or an expression that gives the same result.

Spark does not run a function that is not listed here. Functions of text and of time have modules of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.dialect import call, double, integer, is_null, raise_error, text, when
from neve.query.sql.identifiers import split_names
from neve.query.sql.spark import text_functions, time_functions
from neve.query.sql.type_inference import (
    LIST,
    NotPortable,
    check_alike,
    kind,
    require_kind,
    require_literal,
    require_positive,
)

if TYPE_CHECKING:
    from neve.query.sql.type_inference import Builder


def _sum(node: exp.Expr) -> exp.Expr:
    """Sum integers as decimals: a sum of nanoseconds soon exceeds 64 bits."""
    of = exp.Distinct(expressions=[_summand(node.expressions[0])]) if isinstance(node, exp.Distinct) else _summand(node)
    return exp.Sum(this=of)


def _summand(node: exp.Expr) -> exp.Expr:
    if kind(node) == "int":
        return exp.cast(node.copy(), exp.DataType.build("DECIMAL(20, 0)"))
    return require_kind(node, "float", "decimal")


def _average(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Distinct):
        return exp.Avg(this=exp.Distinct(expressions=[double(node.expressions[0])]))
    return exp.Avg(this=double(require_kind(node, "int", "float", "decimal")))


def _arg_extreme(name: str) -> Builder:
    def build(node: exp.Expr, order: exp.Expr) -> exp.Expr:
        """Ignore rows where either is null, as DuckDB does. Spark ignores only those without an order."""
        return call(name, node, when(is_null(node), exp.Null(), order))

    return build


def _quantile(node: exp.Expr, share: exp.Expr) -> exp.Expr:
    return call("PERCENTILE", double(require_kind(node, "int", "float")), share)


def _discrete_quantile(node: exp.Expr, share: exp.Expr) -> exp.Expr:
    if not isinstance(share, exp.Literal) or kind(node) != "float":
        raise NotPortable("quantile_disc of several shares, or of values that are not floating-point numbers")
    order = exp.Order(expressions=[exp.Ordered(this=node)])
    return exp.WithinGroup(this=call("PERCENTILE_DISC", share), expression=order)


def _text_list(node: exp.Expr, separator: exp.Expr | None = None) -> exp.Expr:
    """Require an order: without one, the text is not deterministic."""
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


AGGREGATE_BUILDERS: dict[str, Builder] = {
    "count": lambda *of: exp.Count(this=of[0] if of else exp.Star()),
    "count_star": lambda: exp.Count(this=exp.Star()),
    "sum": _sum,
    **dict.fromkeys(("avg", "mean"), _average),
    **dict.fromkeys(("arg_max", "argmax", "max_by"), _arg_extreme("MAX_BY")),
    **dict.fromkeys(("arg_min", "argmin", "min_by"), _arg_extreme("MIN_BY")),
    "median": lambda node: _quantile(node, exp.Literal.number("0.5")),
    "quantile_cont": _quantile,
    "quantile_disc": _discrete_quantile,
    **dict.fromkeys(("string_agg", "group_concat", "listagg"), _text_list),
}


def _length(node: exp.Expr) -> exp.Expr:
    if kind(node).startswith(LIST):
        return call("CARDINALITY", node)
    return call("CHAR_LENGTH", require_kind(node, "text"))


def _contains(node: exp.Expr, item: exp.Expr) -> exp.Expr:
    if kind(node).startswith(LIST):
        return _in_list(node, item)
    if kind(node) == "map":
        return call("MAP_CONTAINS_KEY", node, item)
    return call("CONTAINS", require_kind(node, "text"), item)


def _in_list(node: exp.Expr, item: exp.Expr) -> exp.Expr:
    """Return false where Spark returns null because an element is null."""
    found = call("COALESCE", call("ARRAY_CONTAINS", node.copy(), item), exp.false())
    return when(is_null(node), exp.Null(), found)


def _list_function(name: str) -> Builder:
    return lambda node, rule: call(name, node, rule)


def _position(node: exp.Expr, item: exp.Expr) -> exp.Expr:
    """Return null where Spark returns 0."""
    return call("NULLIF", call("ARRAY_POSITION", node, item), integer(0))


def _field(node: exp.Expr, name: exp.Expr) -> exp.Expr:
    field = exp.to_identifier(require_literal(name, "a name of a field"), quoted=True)
    return exp.Dot(this=exp.Paren(this=node), expression=field)


LIST_BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(("length", "len", "array_length"), _length),
    "cardinality": lambda node: call("CARDINALITY", require_kind(node, LIST, "map")),
    "contains": _contains,
    **dict.fromkeys(("list_contains", "list_has", "array_contains", "array_has"), _in_list),
    **dict.fromkeys(("list_position", "list_indexof", "array_position", "array_indexof"), _position),
    **dict.fromkeys(("list_transform", "array_transform", "list_apply", "apply"), _list_function("TRANSFORM")),
    **dict.fromkeys(("list_filter", "array_filter", "filter"), _list_function("FILTER")),
    **dict.fromkeys(("list_sort", "array_sort"), lambda node: call("ARRAY_SORT", node)),
    **dict.fromkeys(("list_reverse", "array_reverse"), lambda node: call("REVERSE", require_kind(node, LIST))),
    **dict.fromkeys(("list_value", "list_pack"), lambda *of: exp.Array(expressions=list(of))),
    "struct_extract": _field,
}


def _round(node: exp.Expr, digits: exp.Expr | None = None) -> exp.Expr:
    """Round a product of the number as DuckDB does. Spark rounds its decimal digits: 1.005 shows the difference."""
    if kind(node) in {"decimal", "int"}:
        return call("ROUND", node, *([digits] if digits is not None else []))
    require_kind(node, "float")
    if digits is None:
        return call("ROUND", node)
    scale = exp.Literal.number(f"1e{require_positive(digits, 0)}")
    product = exp.Mul(this=exp.Paren(this=node), expression=scale)
    return exp.Paren(this=exp.Div(this=call("ROUND", product), expression=scale.copy()))


def _floor_or_ceiling(name: str) -> Builder:
    def build(node: exp.Expr) -> exp.Expr:
        """Handle large values and NaN: Spark returns a bigint, and 0 for NaN. Beyond 9e15 a double has no fraction."""
        if kind(node) == "int":
            return double(node)
        require_kind(node, "float")
        small = exp.LT(this=call("ABS", node.copy()), expression=exp.Literal.number("9e15"))
        return when(small, double(call(name, node.copy())), node.copy())

    return build


def _with_lower_bound(name: str, comparison: type[exp.Binary], words: str) -> Builder:
    def build(node: exp.Expr) -> exp.Expr:
        number = double(node)
        refused = comparison(this=number, expression=exp.Literal.number("0e0"))
        return when(refused, raise_error(words, exp.DType.DOUBLE), call(name, number.copy()))

    return build


def _modulo(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    require_kind(left, "int")
    require_kind(right, "int")
    nothing = call("NULLIF", right, integer(0))
    return exp.Paren(this=exp.Mod(this=exp.Paren(this=left), expression=nothing))


def _with_like_arguments(name: str) -> Builder:
    def build(*nodes: exp.Expr) -> exp.Expr:
        check_alike(list(nodes))
        return call(name, *nodes)

    return build


NUMBER_BUILDERS: dict[str, Builder] = {
    "round": _round,
    "floor": _floor_or_ceiling("FLOOR"),
    **dict.fromkeys(("ceil", "ceiling"), _floor_or_ceiling("CEIL")),
    "ln": _with_lower_bound("LN", exp.LTE, "cannot take logarithm of a number that is not positive"),
    **dict.fromkeys(("log", "log10"), _with_lower_bound("LOG10", exp.LTE, "cannot take logarithm of such a number")),
    "log2": _with_lower_bound("LOG2", exp.LTE, "cannot take logarithm of a number that is not positive"),
    "sqrt": _with_lower_bound("SQRT", exp.LT, "cannot take square root of a negative number"),
    "sign": lambda node: exp.cast(call("SIGN", node), exp.DType.INT),
    "mod": _modulo,
    "isinf": lambda node: exp.EQ(this=call("ABS", double(node)), expression=double(text("Infinity"))),
    **{name: _with_like_arguments(name.upper()) for name in ("coalesce", "ifnull", "nullif", "greatest", "least")},
    "if": when,
}


# Spark rejects a function that is not listed here.

# Functions with the same result in both engines, under the same name and with the same arguments.
SAME = split_names(
    """abs bit_and bit_or bit_xor bool_and bool_or cbrt coalesce concat_ws cos count_if covar_pop covar_samp cume_dist
    degrees dense_rank exp first_value greatest grouping grouping_id ifnull isnan lag last_value lead least
    levenshtein     log10 log2 lower lpad map_entries map_keys map_values max md5 min month nth_value ntile nullif
    octet_length     percent_rank percentile_cont percentile_disc pi quarter radians rank repeat reverse row_number
    rpad sha1 sin starts_with stddev stddev_pop     stddev_samp tan unhex upper var_pop var_samp variance year"""
)
RENAMED = {
    "countif": "count_if",
    "lcase": "lower",
    "ucase": "upper",
    "prefix": "startswith",
    "starts_with": "startswith",
    "suffix": "endswith",
    "ends_with": "endswith",
    "pow": "power",
    "power": "power",
    "rank_dense": "dense_rank",
    "char_length": "char_length",
    "character_length": "char_length",
    "from_hex": "unhex",
    "strpos": "instr",
    "instr": "instr",
    "map_contains": "map_contains_key",
    "now": "current_timestamp",
    "map_extract_value": "try_element_at",
    "today": "current_date",
    "get_current_timestamp": "current_timestamp",
    "array_to_string": "array_join",
    "to_hex": "hex",
    "strlen": "octet_length",
    "list_min": "array_min",
    "list_max": "array_max",
    "dayofmonth": "day",
    "random": "rand",
}
BUILDERS = {
    **AGGREGATE_BUILDERS,
    **LIST_BUILDERS,
    **NUMBER_BUILDERS,
    **text_functions.BUILDERS,
    **time_functions.BUILDERS,
}


def rebuild_call(name: str, arguments: list[exp.Expr]) -> exp.Expr:
    """Return the call for Spark. Raises `NotPortable` if there is none."""
    if name in BUILDERS:
        try:
            return BUILDERS[name](*arguments)
        except TypeError as error:
            raise NotPortable(f"{name} with {len(arguments)} arguments") from error
    if name in RENAMED or name in SAME:
        return call(RENAMED.get(name, name).upper(), *arguments)
    raise NotPortable(f"the function {name}")
