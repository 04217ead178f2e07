"""Spans written down in plain Python, as rows of the view that policies are asked over."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.tail.policy.span_sql import Sql
    from neve.tail.policy.tree import Fact, Key

Value: TypeAlias = "bool | int | float | str | bytes | list[Any] | dict[str, Any] | None"
Attributes: TypeAlias = "Mapping[str, Value]"

MAP = pa.map_(pa.string(), pa.string())
EVENT = pa.struct(
    [("time_unix_nano", pa.int64()), ("name", pa.string()), ("attributes", MAP), ("attribute_types", MAP)]
)
SCHEMA = pa.schema(
    {
        "organization_id": pa.string(),
        **dict.fromkeys(("trace_id", "span_id", "parent_span_id"), pa.binary()),
        **dict.fromkeys(("name", "service_name"), pa.string()),
        **dict.fromkeys(("kind", "status_code"), pa.int32()),
        "status_message": pa.string(),
        **dict.fromkeys(("start_ns", "end_ns"), pa.int64()),
        "trace_state": pa.string(),
        "flags": pa.int64(),
        **dict.fromkeys(("attributes", "attribute_types", "resource_attributes", "resource_attribute_types"), MAP),
        **dict.fromkeys(("scope_name", "scope_version"), pa.string()),
        "events": pa.list_(EVENT),
    }
)


@dataclass(frozen=True)
class Event:
    """An event of a span."""

    name: str = ""
    attributes: Attributes = field(default_factory=dict)
    time: int = 0


@dataclass(frozen=True)
class Span:
    """A span; an attribute that is None was sent without a value."""

    attributes: Attributes = field(default_factory=dict)
    resource: Attributes = field(default_factory=dict)
    name: str = ""
    kind: int = 0
    status: int = 0
    message: str = ""
    start: int = 0
    end: int = 0
    state: str = ""
    flags: int = 0
    scope: str = ""
    version: str = ""
    trace_id: bytes = bytes(16)
    span_id: bytes = bytes(8)
    parent: bytes = b""
    events: tuple[Event, ...] = ()

    def row(self, *, typed: bool) -> dict[str, Any]:
        """The span as a row; without types where the table has none."""
        service = self.resource.get("service.name")
        return {
            "organization_id": "default",
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "parent_span_id": self.parent or None,
            "name": self.name,
            "service_name": None if service is None else text_of(service),
            "kind": self.kind,
            "status_code": self.status,
            "status_message": self.message or None,
            "start_ns": self.start,
            "end_ns": self.end,
            "trace_state": self.state or None,
            "flags": self.flags or None,
            "attributes": texts(self.attributes),
            "attribute_types": types(self.attributes, typed=typed),
            "resource_attributes": texts(self.resource),
            "resource_attribute_types": types(self.resource, typed=typed),
            "scope_name": self.scope or None,
            "scope_version": self.version or None,
            "events": [
                {
                    "time_unix_nano": event.time,
                    "name": event.name,
                    "attributes": texts(event.attributes),
                    "attribute_types": types(event.attributes, typed=typed),
                }
                for event in self.events
            ],
        }


def text_of(value: Value) -> str | None:
    """The text that a table has for a value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    written: str = pa.scalar(value).cast(pa.string()).as_py()
    return written


def type_of(value: Value) -> str | None:
    """The name that a table has for the type of a value; none for a text."""
    names = {bool: "bool", int: "int", float: "double", bytes: "bytes", list: "array", dict: "map", type(None): "empty"}
    return names.get(type(value))


def texts(attributes: Attributes) -> list[tuple[str, str | None]]:
    """A map of texts."""
    return [(key, text_of(value)) for key, value in attributes.items()]


def types(attributes: Attributes, *, typed: bool) -> list[tuple[str, str]] | None:
    """A map of types."""
    named = [(key, type_of(value)) for key, value in attributes.items()]
    return [(key, name) for key, name in named if name is not None] if typed else None


@cache
def database() -> duckdb.DuckDBPyConnection:
    """One DuckDB for all tests."""
    return duckdb.connect(config={"threads": 1})


class Rows:
    """Spans in DuckDB."""

    def __init__(self, spans: Sequence[Span], *, typed: bool = True) -> None:
        self._rows = pa.Table.from_pylist([span.row(typed=typed) for span in spans], SCHEMA)

    def ask(self, asked: Fact | Key | Sql) -> list[Any]:
        """What each span says; only the columns that are asked for are there."""
        columns = ", ".join(sorted(asked.columns)) or "1 AS nothing"
        expression = getattr(asked, "sql", None) or str(asked)
        connection = database()
        connection.register("rows", self._rows)
        found = connection.execute(f"SELECT {expression} FROM (SELECT {columns} FROM rows)").fetchall()
        return [answer for (answer,) in found]


def ask(asked: Fact | Key | Sql, *spans: Span, typed: bool = True) -> list[Any]:
    """What each of some spans says."""
    return Rows(spans, typed=typed).ask(asked)
