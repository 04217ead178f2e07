"""Tables of the star schema: parents, children and the one schema that each table is written with."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from neve.errors import InputError

PART_ID = "_part_id"
IDS = "neve.ids"  # the metadata key for the id convention in root files of Neve
RESOURCE_ATTRS, SCOPE_ATTRS = "resource_attrs", "scope_attrs"


@dataclass(frozen=True)
class Child:
    """A table whose `parent_id` refers to a column of its parent; dots lead into structs."""

    table: str
    parent: str
    column: str = "id"

    @property
    def is_shared(self) -> bool:
        """True if many rows share a parent, as with resources and scopes."""
        return self.column != "id"


@dataclass(frozen=True)
class Star:
    """A root table and all its descendants, parents before their children."""

    root: str
    time_column: str
    children: tuple[Child, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        """The root and its children."""
        return self.root, *(child.table for child in self.children)


def _shared_children(root: str) -> tuple[Child, ...]:
    return Child(RESOURCE_ATTRS, root, "resource.id"), Child(SCOPE_ATTRS, root, "scope.id")


STARS = {
    "logs": Star("logs", "time_unix_nano", (Child("log_attrs", "logs"), *_shared_children("logs"))),
    "spans": Star(
        "spans",
        "start_time_unix_nano",
        (
            Child("span_attrs", "spans"),
            Child("span_events", "spans"),
            Child("span_event_attrs", "span_events"),
            Child("span_links", "spans"),
            Child("span_link_attrs", "span_links"),
            *_shared_children("spans"),
        ),
    ),
}

_TIME, _TEXT, _COUNT = pa.timestamp("ns"), pa.string(), pa.uint32()
_TRACE_ID, _SPAN_ID = pa.binary(16), pa.binary(8)


def _required_field(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


_VALUE = (
    _required_field("type", pa.uint8()),
    pa.field("str", _TEXT),
    pa.field("int", pa.int64()),
    pa.field("double", pa.float64()),
    pa.field("bool", pa.bool_()),
    pa.field("bytes", pa.binary()),
    pa.field("ser", pa.binary()),
)
_ORIGIN = (
    pa.field("id", pa.uint32()),
    pa.field(
        "resource", pa.struct({"id": pa.uint16(), "schema_url": _TEXT, "dropped_attributes_count": _COUNT}.items())
    ),
    pa.field(
        "scope",
        pa.struct({"id": pa.uint16(), "name": _TEXT, "version": _TEXT, "dropped_attributes_count": _COUNT}.items()),
    ),
    _required_field("schema_url", _TEXT),
)
_ATTRS = pa.schema([_required_field("parent_id", pa.uint32()), _required_field("key", _TEXT), *_VALUE])
_SCHEMAS = {
    "logs": pa.schema(
        [
            *_ORIGIN,
            _required_field("time_unix_nano", _TIME),
            _required_field("observed_time_unix_nano", _TIME),
            pa.field("trace_id", _TRACE_ID),
            pa.field("span_id", _SPAN_ID),
            pa.field("severity_number", pa.int32()),
            pa.field("severity_text", _TEXT),
            pa.field("body", pa.struct(_VALUE)),
            _required_field("dropped_attributes_count", _COUNT),
            pa.field("event_name", _TEXT),
            _required_field("flags", pa.uint32()),
        ]
    ),
    "spans": pa.schema(
        [
            *_ORIGIN,
            _required_field("start_time_unix_nano", _TIME),
            _required_field("duration_time_unix_nano", pa.duration("ns")),
            _required_field("trace_id", _TRACE_ID),
            _required_field("span_id", _SPAN_ID),
            pa.field("trace_state", _TEXT),
            pa.field("parent_span_id", _SPAN_ID),
            _required_field("name", _TEXT),
            pa.field("kind", pa.int32()),
            pa.field("dropped_attributes_count", _COUNT),
            pa.field("dropped_events_count", _COUNT),
            pa.field("dropped_links_count", _COUNT),
            pa.field("status", pa.struct({"code": pa.int32(), "status_message": _TEXT}.items())),
            # The specification has it, but otel-arrow's own exporter omits it.
            pa.field("flags", pa.uint32()),
        ]
    ),
    "span_events": pa.schema(
        [
            pa.field("id", pa.uint32()),
            _required_field("parent_id", pa.uint32()),
            pa.field("time_unix_nano", _TIME),
            _required_field("name", _TEXT),
            pa.field("dropped_attributes_count", _COUNT),
        ]
    ),
    "span_links": pa.schema(
        [
            pa.field("id", pa.uint32()),
            _required_field("parent_id", pa.uint32()),
            pa.field("trace_id", _TRACE_ID),
            pa.field("span_id", _SPAN_ID),
            pa.field("trace_state", _TEXT),
            pa.field("dropped_attributes_count", _COUNT),
            pa.field("flags", pa.uint32()),
        ]
    ),
}
# Defaults of columns that are optional in the specification but required in the files.
DEFAULTS: dict[tuple[str, str], str | int] = {
    ("logs", "schema_url"): "",
    ("logs", "time_unix_nano"): 0,
    ("logs", "observed_time_unix_nano"): 0,
    ("logs", "dropped_attributes_count"): 0,
    ("logs", "flags"): 0,
    ("spans", "schema_url"): "",
}


def is_attrs(table: str) -> bool:
    """Return whether a table holds attributes: keys and values of a parent."""
    return table.endswith("_attrs")


def schema(table: str) -> pa.Schema:
    """Return the columns that a table is written with."""
    if table in {name for star in STARS.values() for name in star.tables}:
        return _ATTRS if is_attrs(table) else _SCHEMAS[table]
    known = ", ".join(sorted({name for star in STARS.values() for name in star.tables}))
    raise InputError(f"no such OTAP table: {table}", hint=f"tables of logs and spans are {known}")
