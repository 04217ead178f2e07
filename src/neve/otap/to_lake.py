"""OTAP's rows as OTLP messages, which the one path of ingestion makes the lake's rows of.

Checks, quarantine, the text of values and `record_id` are then what they are for OTLP. A record gets the id that it
would have had by OTLP where its sender wrote attributes in the order that they have here: the id is a hash of bytes. So
files that we write tell the ids beside OTAP's columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.otap.joins import Ids, families, ids_of
from neve.otap.star_rows import SIGNALS, StarRows, fields, whole
from neve.otap.tables import RESOURCE_ATTRS, SCOPE_ATTRS
from neve.otap.values import COLUMNS, to_wire
from neve.otlp.attributes import ENTRY_TYPE
from neve.otlp.codec import MOST_SHARED_BYTES
from neve.otlp.columns import required, some_bytes, some_text, struct, with_nulls
from neve.otlp.envelope import RESOURCE, SCOPE, Surroundings, changes, seal
from neve.otlp.texts import nulls
from neve.otlp.wire import RECORDS, handler

if TYPE_CHECKING:
    from collections import Counter

    from neve.otlp.rows import Columns


def to_messages(star: StarRows, losses: Counter[str]) -> pa.BinaryArray:
    """OTLP messages of all rows; what OTAP said and OTLP can't is counted by name.

    It is one message, unless a large resource stands at so many rows that nobody would decode it.
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


def _pieces(around: Surroundings) -> int:
    """Into how many messages rows must go, so that none grows too large when every row gets its resource and scope."""
    shared = sum(pc.sum(pc.binary_length(wires)).as_py() or 0 for wires in (around.resource, around.scope))
    return 1 + int(2 * shared // MOST_SHARED_BYTES)


def _logs(star: StarRows, losses: Counter[str]) -> Columns:
    body = star.column("body")
    wire = to_wire(fields(body), losses)
    return {
        "time_unix_nano": _times(star.column("time_unix_nano")),
        "observed_time_unix_nano": _times(star.column("observed_time_unix_nano")),
        "severity_number": required(star.column("severity_number"), pa.int32()),
        "severity_text": some_text(star.column("severity_text")),
        "body": struct(fields(wire), null=nulls(body)),
        "attributes": _attributes(ids_of(star.column("id")), star.child("log_attrs"), losses),
        "dropped_attributes_count": required(star.column("dropped_attributes_count"), pa.uint32()),
        "flags": required(star.column("flags"), pa.uint32()),
        "trace_id": _bytes(star.column("trace_id")),
        "span_id": _bytes(star.column("span_id")),
        "event_name": some_text(star.column("event_name")),
    }


def _spans(star: StarRows, losses: Counter[str]) -> Columns:
    ids = ids_of(star.column("id"))
    start = _times(star.column("start_time_unix_nano"))
    duration = star.column("duration_time_unix_nano").cast(pa.int64())
    status = star.column("status")
    code = fields(status)["code"]
    return {
        "trace_id": _bytes(star.column("trace_id")),
        "span_id": _bytes(star.column("span_id")),
        "trace_state": some_text(star.column("trace_state")),
        "parent_span_id": _bytes(star.column("parent_span_id")),
        "flags": required(star.column("flags"), pa.uint32()),
        "name": some_text(star.column("name")),
        "kind": required(star.column("kind"), pa.int32()),
        "start_time_unix_nano": start,
        "end_time_unix_nano": pc.add(start, required(duration, pa.uint64())),  # wraps, as it did on the way out
        "attributes": _attributes(ids, star.child("span_attrs"), losses),
        "dropped_attributes_count": required(star.column("dropped_attributes_count"), pa.uint32()),
        "events": _events(ids, star, losses),
        "dropped_events_count": required(star.column("dropped_events_count"), pa.uint32()),
        "links": _links(ids, star, losses),
        "dropped_links_count": required(star.column("dropped_links_count"), pa.uint32()),
        "status": struct(
            {"message": some_text(fields(status)["status_message"]), "code": required(code, pa.int32())},
            null=nulls(status),
        ),
    }


def _events(parents: Ids, star: StarRows, losses: Counter[str]) -> pa.ListArray:
    events = star.child("span_events")
    columns = {
        "time_unix_nano": _times(whole(events.column("time_unix_nano"))),
        "name": some_text(whole(events.column("name"))),
        "attributes": _attributes(ids_of(events.column("id")), star.child("span_event_attrs"), losses),
        "dropped_attributes_count": required(whole(events.column("dropped_attributes_count")), pa.uint32()),
    }
    return families(parents, ids_of(events.column("parent_id"))).lists(struct(columns))


def _links(parents: Ids, star: StarRows, losses: Counter[str]) -> pa.ListArray:
    links = star.child("span_links")
    columns = {
        "trace_id": _bytes(whole(links.column("trace_id"))),
        "span_id": _bytes(whole(links.column("span_id"))),
        "trace_state": some_text(whole(links.column("trace_state"))),
        "attributes": _attributes(ids_of(links.column("id")), star.child("span_link_attrs"), losses),
        "dropped_attributes_count": required(whole(links.column("dropped_attributes_count")), pa.uint32()),
        "flags": required(whole(links.column("flags")), pa.uint32()),
    }
    return families(parents, ids_of(links.column("parent_id"))).lists(struct(columns))


def _surroundings(star: StarRows, losses: Counter[str]) -> Surroundings:
    """Resource and scope of each row as bytes; each is encoded once for a run of rows that share it."""
    resource, scope = fields(star.column("resource")), fields(star.column("scope"))
    return Surroundings(
        _resources(star, resource, losses),
        some_text(resource["schema_url"]),
        _scopes(star, scope, losses),
        some_text(star.column("schema_url")),
    )


def _resources(star: StarRows, resource: Columns, losses: Counter[str]) -> pa.BinaryArray:
    dropped = resource["dropped_attributes_count"]
    new = changes(pa.array(star.resources), dropped)
    starts = np.flatnonzero(new)
    wire = handler(RESOURCE)
    columns = {
        "attributes": _attributes(star.resources[starts], star.child(RESOURCE_ATTRS), losses),
        "dropped_attributes_count": required(dropped.take(pa.array(starts)), pa.uint32()),
        "entity_refs": pa.array([[]] * len(starts), wire.schema().field("entity_refs").type),
    }
    absent = nulls(resource["id"]) & nulls(dropped)
    return _for_each(wire.record_batch_to_array(pa.RecordBatch.from_pydict(columns)), new, absent)


def _scopes(star: StarRows, scope: Columns, losses: Counter[str]) -> pa.BinaryArray:
    told = [scope[name] for name in ("name", "version", "dropped_attributes_count")]
    new = changes(pa.array(star.scopes), *told)
    starts = np.flatnonzero(new)
    name, version, dropped = (column.take(pa.array(starts)) for column in told)
    columns = {
        "name": some_text(name),
        "version": some_text(version),
        "attributes": _attributes(star.scopes[starts], star.child(SCOPE_ATTRS), losses),
        "dropped_attributes_count": required(dropped, pa.uint32()),
    }
    absent = np.logical_and.reduce([nulls(column) for column in (scope["id"], *told)])
    return _for_each(handler(SCOPE).record_batch_to_array(pa.RecordBatch.from_pydict(columns)), new, absent)


def _for_each(encoded: pa.BinaryArray, new: np.ndarray, absent: np.ndarray) -> pa.BinaryArray:
    """What was encoded once for each run, for every row of the run; null where there is none."""
    return with_nulls(encoded.take(pa.array(np.cumsum(new) - 1)), absent)


def _attributes(parents: Ids, attrs: pa.Table, losses: Counter[str]) -> pa.ListArray:
    """The attributes of each parent as the wire has them, in the order that they stand in."""
    values = to_wire({name: whole(attrs.column(name)) for name in COLUMNS}, losses)
    entries = pa.StructArray.from_arrays([some_text(whole(attrs.column("key"))), values], fields=list(ENTRY_TYPE))
    return families(parents, ids_of(attrs.column("parent_id"))).lists(entries)


def _times(column: pa.Array) -> pa.UInt64Array:
    return required(column.cast(pa.int64()), pa.uint64())


def _bytes(column: pa.Array) -> pa.BinaryArray:
    return some_bytes(column.cast(pa.binary()))
