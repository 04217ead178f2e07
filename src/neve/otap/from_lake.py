"""Lake rows to the tables of a star, with new ids. Information that OTAP can't express is counted by name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.otap.star_rows import NONE, RECORD_ID, SIGNALS, Ids, number_rows, to_id_column
from neve.otap.tables import RESOURCE_ATTRS, SCOPE_ATTRS, schema
from neve.otap.values import from_wire
from neve.otlp.attributes import encode_attributes
from neve.otlp.codec import ENCODERS
from neve.otlp.columns import empty_to_null, null_to_zero, struct, text_or_empty, with_nulls
from neve.otlp.envelope import WireContext, encode_context
from neve.otlp.value_columns import null_mask

if TYPE_CHECKING:
    from neve.otlp.envelope import Columns

MAX_SHARED = 65_536  # resources, and scopes, of a part: their ids have 16 bits

ENTITY_REFS = "records lost the entity references of their resource"
ODD_IDS = "trace or span ids of a wrong length were omitted"

Tables = dict[str, pa.Table]


class PartFull(Exception):
    """Raised when a part has no more ids for resources or scopes: the rows belong to a new part."""


@dataclass
class SharedIds:
    """Resources or scopes of a part: the id of each by its bytes."""

    ids: dict[bytes, int] = field(default_factory=dict)

    def number(self, wires: pa.BinaryArray) -> tuple[Ids, Ids, Ids]:
        """Return the id of each row, and for new values their ids and the first row of each."""
        encoded = wires.dictionary_encode()
        indices = encoded.indices.fill_null(NONE).to_numpy(zero_copy_only=False).astype(np.int64)
        found, first = np.unique(indices, return_index=True)
        first_of = dict(zip(found.tolist(), first.tolist(), strict=True))
        known = np.full(len(encoded.dictionary) + 1, NONE, dtype=np.int64)  # the last element is for rows without an id
        new: list[tuple[int, int]] = []
        for place, wire in enumerate(encoded.dictionary.to_pylist()):
            if wire not in self.ids:
                self.ids[wire] = len(self.ids)
                new.append((self.ids[wire], first_of[place]))
            known[place] = self.ids[wire]
        if len(self.ids) > MAX_SHARED:
            raise PartFull
        table = np.array(new, dtype=np.int64).reshape(-1, 2)
        return known[indices], table[:, 0], table[:, 1]


@dataclass
class PartBuilder:
    """State of the numbering of a part. Rows come in batches, and ids grow from batch to batch."""

    root: str
    losses: Counter[str] = field(default_factory=Counter)
    resources: SharedIds = field(default_factory=SharedIds)
    scopes: SharedIds = field(default_factory=SharedIds)
    next_id: Counter[str] = field(default_factory=Counter)

    def take(self, rows: pa.RecordBatch) -> Tables:
        """Convert rows of the lake to the tables of a star; raises `PartFull` if they need a new part."""
        columns = ENCODERS[SIGNALS[self.root]](rows)
        tables: Tables = {}
        shared = self._add_shared(rows, encode_context(rows), tables)
        own = (self._logs if self.root == "logs" else self._spans)(columns, tables)
        root = _table(self.root, {**shared, **own})
        tables[self.root] = root.append_column(RECORD_ID, rows.column("record_id"))
        return tables

    def _logs(self, wire: Columns, tables: Tables) -> Columns:
        ids = self._ids(self.root, _has_items(wire["attributes"]))
        tables["log_attrs"] = self._attrs("log_attrs", ids, wire["attributes"])
        body = wire["body"]
        return {
            "id": to_id_column(ids, pa.uint32()),
            "time_unix_nano": _to_timestamp(wire["time_unix_nano"]),
            "observed_time_unix_nano": _to_timestamp(wire["observed_time_unix_nano"]),
            "trace_id": self._to_fixed_width(wire["trace_id"], 16),
            "span_id": self._to_fixed_width(wire["span_id"], 8),
            "severity_number": wire["severity_number"],
            "severity_text": empty_to_null(wire["severity_text"]),
            "body": struct(from_wire(_without_nulls(body), self.losses), null=null_mask(body)),
            "dropped_attributes_count": wire["dropped_attributes_count"],
            "event_name": empty_to_null(wire["event_name"]),
            "flags": wire["flags"],
        }

    def _spans(self, wire: Columns, tables: Tables) -> Columns:
        has_children = _has_items(wire["attributes"]) | _has_items(wire["events"]) | _has_items(wire["links"])
        ids = self._ids(self.root, has_children)
        tables["span_attrs"] = self._attrs("span_attrs", ids, wire["attributes"])
        self._events(ids, wire["events"], tables)
        self._links(ids, wire["links"], tables)
        start, end, status = wire["start_time_unix_nano"], wire["end_time_unix_nano"], wire["status"]
        code, message = status.field("code"), status.field("message")
        return {
            "id": to_id_column(ids, pa.uint32()),
            "start_time_unix_nano": _to_timestamp(start),
            # A span without an end has 0 there: the difference wraps, and adding it to the start gives 0 again.
            "duration_time_unix_nano": pc.subtract(end, start).view(pa.int64()).cast(pa.duration("ns")),
            "trace_id": self._to_fixed_width(wire["trace_id"], 16),
            "span_id": self._to_fixed_width(wire["span_id"], 8),
            "trace_state": empty_to_null(wire["trace_state"]),
            "parent_span_id": self._to_fixed_width(wire["parent_span_id"], 8),
            "name": wire["name"],
            "kind": wire["kind"],
            "dropped_attributes_count": wire["dropped_attributes_count"],
            "dropped_events_count": wire["dropped_events_count"],
            "dropped_links_count": wire["dropped_links_count"],
            "status": struct({"code": code, "status_message": message}, null=null_mask(status)),
            "flags": wire["flags"],
        }

    def _events(self, spans: Ids, lists: pa.ListArray, tables: Tables) -> None:
        events = lists.flatten()
        ids = self._ids("span_events", _has_items(events.field("attributes")))
        columns = {
            "id": to_id_column(ids, pa.uint32()),
            "parent_id": _parents(spans, lists),
            "time_unix_nano": _to_timestamp(events.field("time_unix_nano")),
            "name": events.field("name"),
            "dropped_attributes_count": events.field("dropped_attributes_count"),
        }
        tables["span_events"] = _table("span_events", columns)
        tables["span_event_attrs"] = self._attrs("span_event_attrs", ids, events.field("attributes"))

    def _links(self, spans: Ids, lists: pa.ListArray, tables: Tables) -> None:
        links = lists.flatten()
        ids = self._ids("span_links", _has_items(links.field("attributes")))
        columns = {
            "id": to_id_column(ids, pa.uint32()),
            "parent_id": _parents(spans, lists),
            "trace_id": self._to_fixed_width(links.field("trace_id"), 16),
            "span_id": self._to_fixed_width(links.field("span_id"), 8),
            "trace_state": empty_to_null(links.field("trace_state")),
            "dropped_attributes_count": links.field("dropped_attributes_count"),
            "flags": links.field("flags"),
        }
        tables["span_links"] = _table("span_links", columns)
        tables["span_link_attrs"] = self._attrs("span_link_attrs", ids, links.field("attributes"))

    def _add_shared(self, rows: pa.RecordBatch, around: WireContext, tables: Tables) -> Columns:
        """Return the resource and scope of each row, and add the attributes of those that are new to the part."""
        resource_ids, *new_resources = self.resources.number(_with_attributes(around.resource, rows, RESOURCE_ATTRS))
        scope_ids, *new_scopes = self.scopes.number(_with_attributes(around.scope, rows, SCOPE_ATTRS))
        for table, (ids, first) in ((RESOURCE_ATTRS, new_resources), (SCOPE_ATTRS, new_scopes)):
            some = rows.take(pa.array(first))
            tables[table] = self._attrs(table, ids, encode_attributes(some.column(table), some.column(_types(table))))
        refs = pc.fill_null(pc.list_value_length(rows.column("resource_entity_refs")), 0)
        self.losses[ENTITY_REFS] += int((refs.to_numpy() > 0).sum())
        resource = {
            "id": to_id_column(resource_ids, pa.uint16()),
            "schema_url": empty_to_null(around.resource_schema_url),
            # A resource that was sent without attributes has no id. The count distinguishes it from a missing resource.
            "dropped_attributes_count": with_nulls(
                null_to_zero(rows.column("resource_dropped_attributes_count"), pa.uint32()), null_mask(around.resource)
            ),
        }
        scope = {
            "id": to_id_column(scope_ids, pa.uint16()),
            "name": text_or_empty(rows.column("scope_name")),
            "version": rows.column("scope_version"),
            "dropped_attributes_count": null_to_zero(rows.column("scope_dropped_attributes_count"), pa.uint32()),
        }
        return {
            "resource": struct(resource),
            "scope": struct(scope, null=null_mask(around.scope)),
            "schema_url": around.scope_schema_url,
        }

    def _ids(self, table: str, has_children: npt.NDArray[np.bool_]) -> Ids:
        ids = number_rows(has_children, self.next_id[table])
        self.next_id[table] += int(has_children.sum())
        return ids

    def _attrs(self, table: str, parents: Ids, lists: pa.ListArray) -> pa.Table:
        """Return attributes as rows, sorted by parent and key."""
        entries = lists.flatten()
        values = from_wire(entries.field("value"), self.losses)
        columns = {"parent_id": _parents(parents, lists), "key": entries.field("key"), **values}
        return _table(table, columns).sort_by([("parent_id", "ascending"), ("key", "ascending")])

    def _to_fixed_width(self, column: pa.BinaryArray, width: int) -> pa.Array:
        """Return ids of a fixed width; null for missing ids."""
        lengths = pc.binary_length(column).to_numpy()
        self.losses[ODD_IDS] += int(((lengths != 0) & (lengths != width)).sum())
        return with_nulls(column, lengths != width).cast(pa.binary(width))


def _table(name: str, columns: Columns) -> pa.Table:
    kinds = schema(name)
    return pa.Table.from_arrays([columns[kind.name].cast(kind.type) for kind in kinds], schema=kinds)


def _with_attributes(wires: pa.BinaryArray, rows: pa.RecordBatch, table: str) -> pa.BinaryArray:
    """Return resources or scopes, null for those without attributes that an id would lead to."""
    maps = rows.column(table)
    return with_nulls(wires, null_mask(maps) | (np.diff(maps.offsets.to_numpy()) == 0))


def _types(table: str) -> str:
    """Return the column of types that belongs to a column of attributes.

    >>> _types("scope_attrs")
    'scope_attr_types'
    """
    return f"{table.removesuffix('s')}_types"


def _has_items(lists: pa.ListArray) -> npt.NDArray[np.bool_]:
    filled: npt.NDArray[np.bool_] = pc.list_value_length(lists).to_numpy() > 0
    return filled


def _parents(ids: Ids, lists: pa.ListArray) -> pa.Array:
    """Return the id of the parent row for each member of the lists."""
    return pa.array(np.repeat(ids, pc.list_value_length(lists).to_numpy())).cast(pa.uint32())


def _without_nulls(values: pa.StructArray) -> pa.StructArray:
    """Replace null values by empty ones, because a missing body is no loss."""
    return pa.StructArray.from_arrays(values.flatten(), fields=list(values.type))


def _to_timestamp(nanos: pa.UInt64Array) -> pa.Array:
    return nanos.view(pa.int64()).view(pa.timestamp("ns"))
