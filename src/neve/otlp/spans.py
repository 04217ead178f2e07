"""Spans: columns of `Span` messages to columns of the table `spans`, and back."""

import pyarrow as pa
import pyarrow.compute as pc

from neve.otlp.attributes import decode_attributes, encode_attributes
from neve.otlp.columns import (
    bytes_or_empty,
    empty_to_null,
    null_to_zero,
    relist,
    struct,
    text_or_empty,
    to_signed,
    to_timestamps,
    with_nulls,
)
from neve.otlp.decode_result import Intake
from neve.otlp.validation import Check, check_id, check_time
from neve.otlp.value_columns import null_mask

NANOS_PER_MS = 1_000_000.0


def check_spans(spans: pa.RecordBatch, intake: Intake) -> list[Check]:
    """Return the checks that a span must pass to be stored."""
    return [
        check_id("trace_id", spans.column("trace_id"), 16),
        check_id("span_id", spans.column("span_id"), 8),
        *check_time("start_time_unix_nano", spans.column("start_time_unix_nano"), intake, needed=True),
    ]


def decode_spans(spans: pa.RecordBatch, _intake: Intake) -> tuple[dict[str, pa.Array], int]:
    """Return the table's columns, and the number of dropped duplicate attribute keys."""
    start = to_signed(spans.column("start_time_unix_nano"))
    end = to_signed(spans.column("end_time_unix_nano"))
    status = spans.column("status")
    maps = decode_attributes(spans.column("attributes"))
    events, event_duplicates = _decode_events(spans.column("events"))
    links, link_duplicates = _decode_links(spans.column("links"))
    columns = {
        "timestamp": to_timestamps(start),
        "trace_id": spans.column("trace_id"),
        "span_id": spans.column("span_id"),
        "parent_span_id": empty_to_null(spans.column("parent_span_id")),
        "operation_name": spans.column("name"),
        "span_kind": spans.column("kind"),
        "status_code": status.field("code").fill_null(0),
        "duration_ms": _duration(start, end),
        "start_time_unix_nano": start,
        "end_time_unix_nano": end,
        "status_message": with_nulls(status.field("message"), null_mask(status)),
        "trace_state": empty_to_null(spans.column("trace_state")),
        "flags": to_signed(spans.column("flags")),
        "attributes": maps.attributes,
        "attribute_types": maps.types,
        "dropped_attributes_count": to_signed(spans.column("dropped_attributes_count")),
        "events": events,
        "dropped_events_count": to_signed(spans.column("dropped_events_count")),
        "links": links,
        "dropped_links_count": to_signed(spans.column("dropped_links_count")),
    }
    return columns, maps.duplicate_keys + event_duplicates + link_duplicates


def _duration(start: pa.Int64Array, end: pa.Int64Array) -> pa.DoubleArray:
    duration = pc.divide(pc.subtract(end, start).cast(pa.float64(), safe=False), NANOS_PER_MS)
    return with_nulls(duration, end.to_numpy() == 0)


def _decode_events(lists: pa.ListArray) -> tuple[pa.ListArray, int]:
    events = lists.flatten()
    maps = decode_attributes(events.field("attributes"))
    columns = {
        "time_unix_nano": to_signed(events.field("time_unix_nano")),
        "name": events.field("name"),
        "attributes": maps.attributes,
        "attribute_types": maps.types,
        "dropped_attributes_count": to_signed(events.field("dropped_attributes_count")),
    }
    return relist(lists, struct(columns)), maps.duplicate_keys


def _decode_links(lists: pa.ListArray) -> tuple[pa.ListArray, int]:
    links = lists.flatten()
    maps = decode_attributes(links.field("attributes"))
    columns = {
        "trace_id": links.field("trace_id"),
        "span_id": links.field("span_id"),
        "trace_state": empty_to_null(links.field("trace_state")),
        "attributes": maps.attributes,
        "attribute_types": maps.types,
        "dropped_attributes_count": to_signed(links.field("dropped_attributes_count")),
        "flags": to_signed(links.field("flags")),
    }
    return relist(lists, struct(columns)), maps.duplicate_keys


def encode_spans(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    """Convert the table's columns to columns of `Span` messages."""
    return {
        "trace_id": bytes_or_empty(rows.column("trace_id")),
        "span_id": bytes_or_empty(rows.column("span_id")),
        "trace_state": text_or_empty(rows.column("trace_state")),
        "parent_span_id": bytes_or_empty(rows.column("parent_span_id")),
        "flags": null_to_zero(rows.column("flags"), pa.uint32()),
        "name": text_or_empty(rows.column("operation_name")),
        "kind": null_to_zero(rows.column("span_kind"), pa.int32()),
        "start_time_unix_nano": null_to_zero(rows.column("start_time_unix_nano"), pa.uint64()),
        "end_time_unix_nano": null_to_zero(rows.column("end_time_unix_nano"), pa.uint64()),
        "attributes": encode_attributes(rows.column("attributes"), rows.column("attribute_types")),
        "dropped_attributes_count": null_to_zero(rows.column("dropped_attributes_count"), pa.uint32()),
        "events": _encode_events(rows.column("events")),
        "dropped_events_count": null_to_zero(rows.column("dropped_events_count"), pa.uint32()),
        "links": _encode_links(rows.column("links")),
        "dropped_links_count": null_to_zero(rows.column("dropped_links_count"), pa.uint32()),
        "status": _encode_status(rows),
    }


def _encode_status(rows: pa.RecordBatch) -> pa.StructArray:
    message, code = rows.column("status_message"), null_to_zero(rows.column("status_code"), pa.int32())
    absent = null_mask(message) & (code.to_numpy() == 0)
    return struct({"message": text_or_empty(message), "code": code}, null=absent)


def _encode_events(lists: pa.ListArray) -> pa.ListArray:
    events = lists.flatten()
    columns = {
        "time_unix_nano": null_to_zero(events.field("time_unix_nano"), pa.uint64()),
        "name": text_or_empty(events.field("name")),
        "attributes": encode_attributes(events.field("attributes"), events.field("attribute_types")),
        "dropped_attributes_count": null_to_zero(events.field("dropped_attributes_count"), pa.uint32()),
    }
    return relist(lists, struct(columns))


def _encode_links(lists: pa.ListArray) -> pa.ListArray:
    links = lists.flatten()
    columns = {
        "trace_id": bytes_or_empty(links.field("trace_id")),
        "span_id": bytes_or_empty(links.field("span_id")),
        "trace_state": text_or_empty(links.field("trace_state")),
        "attributes": encode_attributes(links.field("attributes"), links.field("attribute_types")),
        "dropped_attributes_count": null_to_zero(links.field("dropped_attributes_count"), pa.uint32()),
        "flags": null_to_zero(links.field("flags"), pa.uint32()),
    }
    return relist(lists, struct(columns))
