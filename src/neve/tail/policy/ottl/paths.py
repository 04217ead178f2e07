"""Paths of OTTL: map a path of a span, its event, resource or scope to the SQL of its value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.tail.policy import conditions
from neve.tail.policy.ottl.syntax import Field, Literal, OttlError, make_unsupported_error
from neve.tail.policy.ottl.values import Kind, Value, make_attribute_value
from neve.tail.policy.span_sql import EVENT, RESOURCE, SPAN, Attributes, Sql, column, select_nested, sql

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.tail.policy.ottl.syntax import Node, Path

SPAN_KINDS = ("Unspecified", "Internal", "Server", "Client", "Producer", "Consumer")
NO_SPAN_ID = "0" * 16
NO_TRACE_ID = "0" * 32


def _text(name: str) -> Value:
    return Value({Kind.STRING: sql("coalesce({}, '')", column(name))})


def _number(name: str, kind: Kind = Kind.INT) -> Value:
    return Value({kind: sql("CAST(coalesce({}, 0) AS BIGINT)", column(name))})


def _id(name: str, kind: Kind, missing: str) -> Value:
    return Value({kind: sql("coalesce({}, unhex('{}'))", column(name), missing)})


def _hex(name: str, missing: str) -> Value:
    return Value({Kind.STRING: sql("coalesce(lower(hex({})), '{}')", column(name), missing)})


def _kind_name(names: tuple[str, ...]) -> Value:
    cases = " ".join(f"WHEN {at} THEN '{name}'" for at, name in enumerate(names))
    return Value({Kind.STRING: sql(f"CASE coalesce({{}}, 0) {cases} ELSE '' END", column("kind"))})


def _of_event(name: str, kind: Kind, default: str) -> Value:
    return Value({kind: Sql(f"coalesce(e.{name}, {default})", frozenset(("events",)))})


def _size(counted: Sql, how: str) -> Value:
    return Value({}, size=sql(f"CAST(coalesce({how}({{}}), 0) AS BIGINT)", counted))


SPAN_PATHS: Mapping[str, Value] = {
    "name": _text("name"),
    "kind": _number("kind"),
    "kind.string": _kind_name(SPAN_KINDS),
    "kind.deprecated_string": _kind_name(tuple(f"SPAN_KIND_{name.upper()}" for name in SPAN_KINDS)),
    "status.code": _number("status_code"),
    "status.message": _text("status_message"),
    "start_time_unix_nano": _number("start_ns"),
    "end_time_unix_nano": _number("end_ns"),
    "start_time": _number("start_ns", Kind.TIME),
    "end_time": _number("end_ns", Kind.TIME),
    "trace_id": _id("trace_id", Kind.TRACE_ID, NO_TRACE_ID),
    "trace_id.string": _hex("trace_id", NO_TRACE_ID),
    "span_id": _id("span_id", Kind.SPAN_ID, NO_SPAN_ID),
    "span_id.string": _hex("span_id", NO_SPAN_ID),
    "parent_span_id": _id("parent_span_id", Kind.SPAN_ID, NO_SPAN_ID),
    "parent_span_id.string": _hex("parent_span_id", NO_SPAN_ID),
    "trace_state": _text("trace_state"),
    "flags": _number("flags"),
    "attributes": _size(column("attributes"), "cardinality"),
    "events": _size(column("events"), "len"),
}
EVENT_PATHS: Mapping[str, Value] = {
    "name": _of_event("name", Kind.STRING, "''"),
    "time_unix_nano": _of_event("time_unix_nano", Kind.INT, "CAST(0 AS BIGINT)"),
    "time": _of_event("time_unix_nano", Kind.TIME, "CAST(0 AS BIGINT)"),
    "attributes": _size(EVENT.values, "cardinality"),
}
SCOPE_PATHS: Mapping[str, Value] = {"name": _text("scope_name"), "version": _text("scope_version")}
RESOURCE_PATHS: Mapping[str, Value] = {"attributes": _size(column("resource_attributes"), "cardinality")}

PATHS: Mapping[str, Mapping[str, Value]] = {
    "span": SPAN_PATHS,
    "spanevent": EVENT_PATHS,
    "resource": RESOURCE_PATHS,
    "scope": SCOPE_PATHS,
    "instrumentation_scope": SCOPE_PATHS,
}
MAPS: Mapping[str, Attributes] = {"span": SPAN, "spanevent": EVENT, "resource": RESOURCE}


def resolve_path(path: Path, context: str) -> Value:
    """Resolve a path to its value, where `context` is the start of a path without one.

    Raises `OttlError`.
    """
    first, *rest = path.fields
    place, fields = context, list(path.fields)
    if first.name in PATHS and rest and not first.keys and not (first.name == "spanevent" and context == "span"):
        place, fields = first.name, rest
    found = _find_value(place, fields)
    if found is None:
        supported = ", ".join(f"{place}.{name}" for name in _list_names(place))
        raise make_unsupported_error(f"path {path}", supported)
    return replace(found, what=str(path))


def _find_value(place: str, fields: list[Field]) -> Value | None:
    name = ".".join(field.name for field in fields)
    keys = fields[-1].keys
    if any(field.keys for field in fields[:-1]):
        return None
    if not keys:
        return PATHS[place].get(name)
    if name == "attributes" and place in MAPS:
        return _select_attribute(MAPS[place], *(_require_literal_key(name, key) for key in keys))
    if name == "trace_state" and place == "span" and len(keys) == 1:
        found = conditions.select_trace_state_value(_require_text_key(name, _require_literal_key(name, keys[0])))
        return Value({Kind.STRING: found}, nil=sql("({} IS NULL)", found))
    return None


def _list_names(place: str) -> list[str]:
    more = ['attributes["key"]'] if place in MAPS else []
    return [*PATHS[place], *more, *(['trace_state["key"]'] if place == "span" else [])]


def _select_attribute(attributes: Attributes, first: str | int, *more: str | int) -> Value:
    """Return an attribute, or a value nested in one."""
    found = attributes.attribute(_require_text_key("attributes", first))
    if not more:
        return make_attribute_value(found)
    inner, fails = select_nested(found, more)
    return replace(make_attribute_value(inner), fails=fails)


def _require_literal_key(name: str, key: Node) -> str | int:
    if not isinstance(key, Literal):
        raise make_unsupported_error(f"path {name}[...] with a key that is not a literal", f'{name}["key"]')
    if isinstance(key.value, str) or (type(key.value) is int and key.value >= 0):
        return key.value
    raise OttlError(f"a key of {name} is {key.value!r}, expected a text in quotes or a whole number")


def _require_text_key(name: str, key: str | int) -> str:
    if isinstance(key, str):
        return key
    raise OttlError(f"the key of {name} is {key!r}, expected a text in quotes")
