"""Names and values of attributes, for the editors of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.errors import InvalidExpression
from neve.traceql.evaluation.span_batch import SCOPES
from neve.traceql.evaluation.vectors import from_texts
from neve.traceql.http.documents import VALUE_CHARACTERS
from neve.traceql.language.fields import INTRINSICS, KINDS, STATUSES, Attribute, Existence, Type
from neve.traceql.language.parser import parse
from neve.traceql.language.syntax import Filter, Pipeline
from neve.traceql.storage.columns import LISTS, MAPS
from neve.traceql.storage.conditions import narrow
from neve.traceql.storage.sql import Sql, join_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.traceql.language.fields import Field
    from neve.traceql.storage.span_reader import SpanReader, Window

__all__ = ["INTRINSIC_NAMES", "list_names", "list_values", "parse_tag"]

MAX_NAMES = 1000  # of a scope
MAX_VALUES = 1000
INTRINSIC_NAMES = sorted(name for name in INTRINSICS if name != "parent")
_WORDS = {"status": STATUSES, "kind": KINDS}
_TEXTS = {
    "name": "operation_name",
    "statusMessage": "status_message",
    "instrumentation:name": "scope_name",
    "instrumentation:version": "scope_version",
    "rootName": "operation_name",
    "rootServiceName": "service_name",
}
_OF_ROOTS = frozenset({"rootName", "rootServiceName"})
_TYPES = {Type.INT: "int", Type.FLOAT: "float", Type.BOOL: "bool"}
# ruff: noqa: S608 - names of columns are constants, all else are parameters


def parse_tag(text: str, *, is_scoped: bool) -> Attribute:
    """Return the attribute that a tag names. Without scopes, an attribute of any scope, or an intrinsic."""
    tried = [text] if is_scoped else [text if text in INTRINSICS else f".{text}"]
    for one in tried:
        root = parse(f"{{ {one} != nil }}").root
        if isinstance(root, Pipeline) and isinstance(root.elements[0], Filter):
            condition = root.elements[0].condition
            if isinstance(condition, Existence) and isinstance(condition.operand, Attribute):
                return condition.operand
    raise InvalidExpression(f"the tag is {text[:100]!r}, expected an attribute with its scope, or an intrinsic")


def list_names(reader: SpanReader, scope: str, condition: Field | None, window: Window) -> list[str]:
    """Return the names of the attributes of a scope, in order."""
    if scope in LISTS:
        inside = f"unnest(flatten(list_transform({LISTS[scope]}, e -> map_keys(e.attributes))))"
    else:
        inside = f"unnest(map_keys({MAPS[scope][0]}))"
    where = _where(narrow(condition) if condition is not None else None)
    sql = Sql(f"SELECT DISTINCT {inside} AS name FROM spans{where.text} LIMIT {MAX_NAMES}", where.parameters)
    return sorted(one for one in reader.table(sql, window).column(0).to_pylist() if one)


def list_values(
    reader: SpanReader, attribute: Attribute, condition: Field | None, window: Window, limit: int
) -> list[dict[str, Any]]:
    """Return the values of an attribute or intrinsic with their types, in order."""
    if attribute.scope == "intrinsic":
        if attribute.name in _WORDS:
            return [{"type": "keyword", "value": one} for one in _WORDS[attribute.name]]
        found = _list_texts(reader, attribute.name, condition, window, limit)
    else:
        found = _list_attribute(reader, attribute, condition, window, limit)
    distinct = {(one["type"], one["value"]): one for one in found}
    return [distinct[key] for key in sorted(distinct)][:limit]


def _where(*conditions: Sql | None) -> Sql:
    found = join_all(conditions)
    return Sql("") if found is None else Sql(f" WHERE {found.text}", found.parameters)


def _list_texts(
    reader: SpanReader, name: str, condition: Field | None, window: Window, limit: int
) -> Iterator[dict[str, Any]]:
    if name not in _TEXTS:
        return  # ids, durations and numbers of a tree are different for each span
    root = Sql("parent_span_id IS NULL") if name in _OF_ROOTS else None
    given = narrow(condition) if condition is not None and name not in _OF_ROOTS else None
    where = _where(root, given, Sql(f"{_TEXTS[name]} <> ''"))
    sql = Sql(f"SELECT DISTINCT {_TEXTS[name]} AS value FROM spans{where.text} LIMIT {limit}", where.parameters)
    for text in reader.table(sql, window).column(0).to_pylist():
        yield {"type": "string", "value": text[:VALUE_CHARACTERS]}


def _list_attribute(
    reader: SpanReader, attribute: Attribute, condition: Field | None, window: Window, limit: int
) -> Iterator[dict[str, Any]]:
    given = narrow(condition) if condition is not None else None
    for scope in (attribute.scope,) if attribute.scope else SCOPES:
        inside = _write_values(scope, attribute.name)
        where = _where(given)
        text = (
            f"SELECT DISTINCT v, t FROM (SELECT {inside.text} FROM spans{where.text}) WHERE v IS NOT NULL LIMIT {limit}"
        )
        rows = reader.table(Sql(text, (*inside.parameters, *where.parameters)), window).combine_chunks()
        if not rows.num_rows:
            continue
        vector = from_texts(rows.column(0).chunk(0), rows.column(1).chunk(0))
        for row in range(len(vector)):
            value = vector.get(row)
            if value.type is not Type.NIL:
                text = str(value) if value.type in _TYPES else str(value.value)
                yield {"type": _TYPES.get(value.type, "string"), "value": text[:VALUE_CHARACTERS]}


def _write_values(scope: str, name: str) -> Sql:
    """Return the columns `v` and `t` of an attribute. Those of events and links have a row for each."""
    if (scope, name) == ("resource", "service.name"):
        return Sql("service_name AS v, NULL::VARCHAR AS t")
    if scope in LISTS:
        parts = (f"unnest(list_transform({LISTS[scope]}, e -> e.{map_}[?])) AS {alias}" for map_, alias in _PAIR)
        return Sql(", ".join(parts), (name, name))
    values, types = MAPS[scope]
    return Sql(f"{values}[?] AS v, {types}[?] AS t", (name, name))


_PAIR = (("attributes", "v"), ("attribute_types", "t"))
