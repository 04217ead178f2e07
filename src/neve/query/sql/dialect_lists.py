"""Functions of lists, maps and structs, for Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.build import call, integer, is_null, when
from neve.query.sql.dialect_arguments import LIST, literal, need
from neve.query.sql.kinds import kind

if TYPE_CHECKING:
    from neve.query.sql.dialect_arguments import Builder


def _length(node: exp.Expr) -> exp.Expr:
    if kind(node).startswith(LIST):
        return call("CARDINALITY", node)
    return call("CHAR_LENGTH", need(node, "text"))


def _contains(node: exp.Expr, item: exp.Expr) -> exp.Expr:
    if kind(node).startswith(LIST):
        return _in_list(node, item)
    if kind(node) == "map":
        return call("MAP_CONTAINS_KEY", node, item)
    return call("CONTAINS", need(node, "text"), item)


def _in_list(node: exp.Expr, item: exp.Expr) -> exp.Expr:
    """False where Spark says null because a null is among the elements."""
    found = call("COALESCE", call("ARRAY_CONTAINS", node.copy(), item), exp.false())
    return when(is_null(node), exp.Null(), found)


def _list_function(name: str) -> Builder:
    return lambda node, rule: call(name, node, rule)


def _position(node: exp.Expr, item: exp.Expr) -> exp.Expr:
    """Null where Spark says 0."""
    return call("NULLIF", call("ARRAY_POSITION", node, item), integer(0))


def _field(node: exp.Expr, name: exp.Expr) -> exp.Expr:
    field = exp.to_identifier(literal(name, "a name of a field"), quoted=True)
    return exp.Dot(this=exp.Paren(this=node), expression=field)


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(("length", "len", "array_length"), _length),
    "cardinality": lambda node: call("CARDINALITY", need(node, LIST, "map")),
    "contains": _contains,
    **dict.fromkeys(("list_contains", "list_has", "array_contains", "array_has"), _in_list),
    **dict.fromkeys(("list_position", "list_indexof", "array_position", "array_indexof"), _position),
    **dict.fromkeys(("list_transform", "array_transform", "list_apply", "apply"), _list_function("TRANSFORM")),
    **dict.fromkeys(("list_filter", "array_filter", "filter"), _list_function("FILTER")),
    **dict.fromkeys(("list_sort", "array_sort"), lambda node: call("ARRAY_SORT", node)),
    **dict.fromkeys(("list_reverse", "array_reverse"), lambda node: call("REVERSE", need(node, LIST))),
    **dict.fromkeys(("list_value", "list_pack"), lambda *of: exp.Array(expressions=list(of))),
    "struct_extract": _field,
}
