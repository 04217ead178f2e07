"""Columns that a query needs of spans: attributes by their names, intrinsics, and the structure of traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.traceql.evaluation.span_batch import SCOPES, column_name
from neve.traceql.language.fields import Attribute, Binary, Existence, Unary
from neve.traceql.language.syntax import (
    Aggregate,
    Compare,
    Filter,
    Group,
    MetricsAggregate,
    MetricsPipeline,
    Pipeline,
    ScalarFilter,
    Select,
    SpansetOperation,
)
from neve.traceql.storage.sql import Sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.traceql.language.fields import Field
    from neve.traceql.language.syntax import Element, Scalar

__all__ = ["list_attributes", "needs_whole_traces", "write_columns"]

BASE = {"trace_id": "trace_id", "start": "start_time_unix_nano", "stop": "end_time_unix_nano"}
TREE = ("span_id", "parent_span_id")
MAPS = {
    "span": ("attributes", "attribute_types"),
    "resource": ("resource_attrs", "resource_attr_types"),
    "instrumentation": ("scope_attrs", "scope_attr_types"),
}
LISTS = {"event": "events", "link": "links"}
_EVENTS = Sql("list_transform(events, e -> {'time': e.time_unix_nano, 'name': e.name})")
_LINKS = Sql("list_transform(links, e -> {'trace_id': e.trace_id, 'span_id': e.span_id})")
# Columns of each intrinsic that are not in every batch.
_INTRINSIC_COLUMNS: dict[str, tuple[str, ...]] = {
    "name": ("operation_name",),
    "status": ("status_code",),
    "statusMessage": ("status_message",),
    "kind": ("span_kind",),
    "rootName": ("operation_name", *TREE),
    "rootServiceName": ("service_name", *TREE),
    "instrumentation:name": ("scope_name",),
    "instrumentation:version": ("scope_version",),
    "span:id": ("span_id",),
    "span:parentID": ("parent_span_id",),
    "event:name": ("events",),
    "event:timeSinceStart": ("events",),
    "link:traceID": ("links",),
    "link:spanID": ("links",),
    **dict.fromkeys(("span:childCount", "nestedSetLeft", "nestedSetRight", "nestedSetParent"), TREE),
}
_OF_TRACES = frozenset(
    [
        "rootName",
        "rootServiceName",
        "traceDuration",
        "span:childCount",
        "nestedSetLeft",
        "nestedSetRight",
        "nestedSetParent",
    ]
)


def list_attributes(
    node: Element | Pipeline | MetricsPipeline | MetricsAggregate | Compare | Scalar | Field,
) -> list[Attribute]:
    """Return the attributes and intrinsics that a query names, each once, in their order."""
    return list(dict.fromkeys(_walk(node)))


def _walk(node: object) -> Iterator[Attribute]:
    if isinstance(node, Attribute):
        yield node
    for part in _list_parts(node):
        yield from _walk(part)


def _list_parts(node: object) -> Sequence[object]:  # noqa: PLR0911  # one for each kind of node
    """Return the nodes inside of a node, in their order."""
    match node:
        case Unary() | Existence() | Group() | Aggregate():
            return (node.operand,)
        case Binary() | SpansetOperation() | ScalarFilter():
            return (node.left, node.right)
        case Filter() | Compare():
            return (node.condition if isinstance(node, Filter) else node.selection,)
        case Select() | Pipeline():
            return node.attributes if isinstance(node, Select) else node.elements
        case MetricsPipeline():
            return (node.pipeline, node.first)
        case MetricsAggregate():
            return (*node.by, node.attribute)
    return ()


def needs_whole_traces(node: Pipeline | MetricsPipeline) -> bool:
    """Return whether a query depends on other spans than those that a condition chooses one by one."""
    if any(one.scope == "intrinsic" and one.name in _OF_TRACES for one in list_attributes(node)):
        return True
    pipeline = node.pipeline if isinstance(node, MetricsPipeline) else node
    return not all(isinstance(one, Filter | Select) for one in pipeline.elements)


def has_structure(node: object) -> bool:
    """Return whether a query has structural operators."""
    match node:
        case SpansetOperation():
            is_structural = node.operator not in {"&&", "||"}
            return is_structural or has_structure(node.left) or has_structure(node.right)
        case Pipeline():
            return any(has_structure(one) for one in node.elements)
    return False


def write_columns(attributes: Sequence[Attribute], more: Sequence[str] = ()) -> tuple[Sql, list[str]]:
    """Return the SQL of the columns for a batch, which are `c0`, `c1`, …, and their names in the batch."""
    columns: dict[str, Sql] = {name: Sql(column) for name, column in BASE.items()}
    columns |= {name: _write_column(name) for name in more}
    for attribute in attributes:
        columns |= _write_attribute(attribute)
    text = ", ".join(f"{one.text} AS c{place}" for place, one in enumerate(columns.values()))
    return Sql(text, tuple(given for one in columns.values() for given in one.parameters)), list(columns)


def _write_attribute(attribute: Attribute) -> dict[str, Sql]:
    if attribute.scope == "intrinsic":
        return {name: _write_column(name) for name in _INTRINSIC_COLUMNS.get(attribute.name, ())}
    scopes = (attribute.scope,) if attribute.scope else SCOPES
    found: dict[str, Sql] = {}
    for scope in scopes:
        found |= _write_scope(scope, attribute.name)
    return found


def _write_column(name: str) -> Sql:
    return {"events": _EVENTS, "links": _LINKS}.get(name, Sql(name))


def _write_scope(scope: str, name: str) -> dict[str, Sql]:
    if (scope, name) == ("resource", "service.name"):
        return {"service_name": Sql("service_name")}
    column = column_name(scope, name)
    if scope in LISTS:
        item = "{'v': e.attributes[?], 't': e.attribute_types[?]}"
        return {column: Sql(f"list_transform({LISTS[scope]}, e -> {item})", (name, name))}
    values, types = MAPS[scope]
    return {column: Sql(f"{values}[?]", (name,)), f"{column}?": Sql(f"{types}[?]", (name,))}
