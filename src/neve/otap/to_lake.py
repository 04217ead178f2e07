"""OTAP rows to OTLP messages, from which the one ingestion path makes the lake's rows.

Checks, quarantine, the text of values and `record_id` are therefore the same as for OTLP. A record gets the id that
it would have had by OTLP if its sender wrote attributes in the order that they have here: the id is a hash of bytes.
Therefore files written by Neve store the ids beside OTAP's columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.otap.star_rows import SIGNALS, Ids, StarRows, combine_chunks, group_children, ids_of, struct_fields
from neve.otap.tables import RESOURCE_ATTRS, SCOPE_ATTRS
from neve.otap.values import COLUMNS, to_wire
from neve.otlp.codec import MAX_SHARED_BYTES
from neve.otlp.columns import bytes_or_empty, null_to_zero, struct, text_or_empty, with_nulls
from neve.otlp.envelope import RESOURCE, SCOPE, WireContext, find_changes, seal
from neve.otlp.protobuf import RECORDS, handler
from neve.otlp.repeated_keys import ENTRY_TYPE
from neve.otlp.value_columns import null_mask

if TYPE_CHECKING:
    from collections import Counter

    from neve.otlp.envelope import Columns


def to_messages(star: StarRows, losses: Counter[str]) -> pa.BinaryArray:
    """Convert all rows to OTLP messages; losses of information that OTLP can't express are counted by name.

    It is one message, unless a large resource is repeated for so many rows that decoding would refuse it.
    """
    if star.rows.num_rows == 0:
        return pa.array([], pa.binary())
    signal = SIGNALS[star.root]
    columns = (_logs if star.root == "logs" else _spans)(star, losses)
    records = handler(RECORDS[signal]).record_batch_to_array(pa.RecordBatch.from_pydict(columns))
    around = _surroundings(star, losses)
    size = max(1, len(records) // _pieces(around))
    starts = range(0, len(records), size)
    sealed = [
        seal(signal, records.slice(start, size), around.take(np.arange(start, min(start + size, len(records)))))
        for start in starts
    ]
    return pa.array(sealed, pa.binary())


def _pieces(around: WireContext) -> int:
    """Return the number of messages, so that none grows too large when every row gets its resource and scope."""
    shared = sum(pc.sum(pc.binary_length(wires)).as_py() or 0 for wires in (around.resource, around.scope))
    return 1 + int(2 * shared // MAX_SHARED_BYTES)


def _logs(star: StarRows, losses: Counter[str]) -> Columns:
    body = star.column("body")
    wire = to_wire(struct_fields(body), losses)
    return {
        "time_unix_nano": _times(star.column("time_unix_nano")),
        "observed_time_unix_nano": _times(star.column("observed_time_unix_nano")),
        "severity_number": null_to_zero(star.column("severity_number"), pa.int32()),
        "severity_text": text_or_empty(star.column("severity_text")),
        "body": struct(struct_fields(wire), null=null_mask(body)),
        "attributes": _attributes(ids_of(star.column("id")), star.child("log_attrs"), losses),
        "dropped_attributes_count": null_to_zero(star.column("dropped_attributes_count"), pa.uint32()),
        "flags": null_to_zero(star.column("flags"), pa.uint32()),
        "trace_id": _bytes(star.column("trace_id")),
        "span_id": _bytes(star.column("span_id")),
        "event_name": text_or_empty(star.column("event_name")),
    }


def _spans(star: StarRows, losses: Counter[str]) -> Columns:
    ids = ids_of(star.column("id"))
    start = _times(star.column("start_time_unix_nano"))
    duration = star.column("duration_time_unix_nano").cast(pa.int64())
    status = star.column("status")
    code = struct_fields(status)["code"]
    return {
        "trace_id": _bytes(star.column("trace_id")),
        "span_id": _bytes(star.column("span_id")),
        "trace_state": text_or_empty(star.column("trace_state")),
        "parent_span_id": _bytes(star.column("parent_span_id")),
        "flags": null_to_zero(star.column("flags"), pa.uint32()),
        "name": text_or_empty(star.column("name")),
        "kind": null_to_zero(star.column("kind"), pa.int32()),
        "start_time_unix_nano": start,
        "end_time_unix_nano": pc.add(start, null_to_zero(duration, pa.uint64())),  # wraps, as it did in the export
        "attributes": _attributes(ids, star.child("span_attrs"), losses),
        "dropped_attributes_count": null_to_zero(star.column("dropped_attributes_count"), pa.uint32()),
        "events": _events(ids, star, losses),
        "dropped_events_count": null_to_zero(star.column("dropped_events_count"), pa.uint32()),
        "links": _links(ids, star, losses),
        "dropped_links_count": null_to_zero(star.column("dropped_links_count"), pa.uint32()),
        "status": struct(
            {"message": text_or_empty(struct_fields(status)["status_message"]), "code": null_to_zero(code, pa.int32())},
            null=null_mask(status),
        ),
    }


def _events(parents: Ids, star: StarRows, losses: Counter[str]) -> pa.ListArray:
    events = star.child("span_events")
    columns = {
        "time_unix_nano": _times(combine_chunks(events.column("time_unix_nano"))),
        "name": text_or_empty(combine_chunks(events.column("name"))),
        "attributes": _attributes(ids_of(events.column("id")), star.child("span_event_attrs"), losses),
        "dropped_attributes_count": null_to_zero(
            combine_chunks(events.column("dropped_attributes_count")), pa.uint32()
        ),
    }
    return group_children(parents, ids_of(events.column("parent_id"))).lists(struct(columns))


def _links(parents: Ids, star: StarRows, losses: Counter[str]) -> pa.ListArray:
    links = star.child("span_links")
    columns = {
        "trace_id": _bytes(combine_chunks(links.column("trace_id"))),
        "span_id": _bytes(combine_chunks(links.column("span_id"))),
        "trace_state": text_or_empty(combine_chunks(links.column("trace_state"))),
        "attributes": _attributes(ids_of(links.column("id")), star.child("span_link_attrs"), losses),
        "dropped_attributes_count": null_to_zero(combine_chunks(links.column("dropped_attributes_count")), pa.uint32()),
        "flags": null_to_zero(combine_chunks(links.column("flags")), pa.uint32()),
    }
    return group_children(parents, ids_of(links.column("parent_id"))).lists(struct(columns))


def _surroundings(star: StarRows, losses: Counter[str]) -> WireContext:
    """Return the resource and scope of each row as bytes; each is encoded once for a run of rows that share it."""
    resource, scope = struct_fields(star.column("resource")), struct_fields(star.column("scope"))
    return WireContext(
        _resources(star, resource, losses),
        text_or_empty(resource["schema_url"]),
        _scopes(star, scope, losses),
        text_or_empty(star.column("schema_url")),
    )


def _resources(star: StarRows, resource: Columns, losses: Counter[str]) -> pa.BinaryArray:
    dropped = resource["dropped_attributes_count"]
    new = find_changes(pa.array(star.resources), dropped)
    starts = np.flatnonzero(new)
    wire = handler(RESOURCE)
    columns = {
        "attributes": _attributes(star.resources[starts], star.child(RESOURCE_ATTRS), losses),
        "dropped_attributes_count": null_to_zero(dropped.take(pa.array(starts)), pa.uint32()),
        "entity_refs": pa.array([[]] * len(starts), wire.schema().field("entity_refs").type),
    }
    absent = null_mask(resource["id"]) & null_mask(dropped)
    return _repeat_for_rows(wire.record_batch_to_array(pa.RecordBatch.from_pydict(columns)), new, absent)


def _scopes(star: StarRows, scope: Columns, losses: Counter[str]) -> pa.BinaryArray:
    stored = [scope[name] for name in ("name", "version", "dropped_attributes_count")]
    new = find_changes(pa.array(star.scopes), *stored)
    starts = np.flatnonzero(new)
    name, version, dropped = (column.take(pa.array(starts)) for column in stored)
    columns = {
        "name": text_or_empty(name),
        "version": text_or_empty(version),
        "attributes": _attributes(star.scopes[starts], star.child(SCOPE_ATTRS), losses),
        "dropped_attributes_count": null_to_zero(dropped, pa.uint32()),
    }
    absent = np.logical_and.reduce([null_mask(column) for column in (scope["id"], *stored)])
    return _repeat_for_rows(handler(SCOPE).record_batch_to_array(pa.RecordBatch.from_pydict(columns)), new, absent)


def _repeat_for_rows(encoded: pa.BinaryArray, new: np.ndarray, absent: np.ndarray) -> pa.BinaryArray:
    """Repeat the encoded value of each run for every row of the run; null for absent ones."""
    return with_nulls(encoded.take(pa.array(np.cumsum(new) - 1)), absent)


def _attributes(parents: Ids, attrs: pa.Table, losses: Counter[str]) -> pa.ListArray:
    """Return the attributes of each parent in wire form, in their order."""
    values = to_wire({name: combine_chunks(attrs.column(name)) for name in COLUMNS}, losses)
    entries = pa.StructArray.from_arrays(
        [text_or_empty(combine_chunks(attrs.column("key"))), values], fields=list(ENTRY_TYPE)
    )
    return group_children(parents, ids_of(attrs.column("parent_id"))).lists(entries)


def _times(column: pa.Array) -> pa.UInt64Array:
    return null_to_zero(column.cast(pa.int64()), pa.uint64())


def _bytes(column: pa.Array) -> pa.BinaryArray:
    return bytes_or_empty(column.cast(pa.binary()))
