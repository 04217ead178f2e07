"""Every table of the lake, declared once.

The Arrow schemas that the wire decodes into, the Iceberg tables that `neve init` creates and the page `docs/tables.md`
all come from here. Hot columns stand first, payload last. What OTLP can say and a plain column can't (whether an empty
status was sent or none at all, say) is kept by nulls, and each comment says how.
"""

from dataclasses import replace

import pyarrow as pa

from neve.model.columns import QUANTILE_VALUE, STRING_LIST, STRING_MAP, TIMESTAMP, Column, Table
from neve.model.queries import QUERIES
from neve.model.rollups import ROLLUPS
from neve.model.sampled import sampled
from neve.model.search import SEARCH_INDEX
from neve.model.signals import Signal
from neve.model.tail import DECISIONS, OPEN_TRACES

NAMESPACE = "telemetry"

ENTITY_REF = pa.struct(
    [
        ("schema_url", pa.string()),
        ("type", pa.string()),
        ("id_keys", STRING_LIST),
        ("description_keys", STRING_LIST),
    ]
)
EVENT = pa.struct(
    [
        ("time_unix_nano", pa.int64()),
        ("name", pa.string()),
        ("attributes", STRING_MAP),
        ("attribute_types", STRING_MAP),
        ("dropped_attributes_count", pa.int64()),
    ]
)
LINK = pa.struct(
    [
        ("trace_id", pa.binary()),
        ("span_id", pa.binary()),
        ("trace_state", pa.string()),
        ("attributes", STRING_MAP),
        ("attribute_types", STRING_MAP),
        ("dropped_attributes_count", pa.int64()),
        ("flags", pa.int64()),
    ]
)
EXEMPLAR = pa.struct(
    [
        ("time_unix_nano", pa.int64()),
        ("value", pa.float64()),
        ("value_int", pa.int64()),
        ("trace_id", pa.binary()),
        ("span_id", pa.binary()),
        ("attributes", STRING_MAP),
        ("attribute_types", STRING_MAP),
    ]
)
BUCKETS = pa.struct([("offset", pa.int32()), ("bucket_counts", pa.list_(pa.int64()))])

ORGANIZATION = Column("organization_id", pa.string(), "tenant that the record belongs to", required=True)

ATTRIBUTES = (
    Column("attributes", STRING_MAP, "attributes, every value as text (see attribute_types)"),
    Column(
        "attribute_types",
        STRING_MAP,
        "type of each attribute that is not a string: int, double, bool, bytes (base64), array or map (JSON), "
        "empty, unset, or exact: and the value's protobuf in base64 where JSON can't say it",
    ),
)
DROPPED_ATTRIBUTES = Column("dropped_attributes_count", pa.int64(), "attributes that the sender dropped")

CONTEXT = (
    Column("resource_attrs", STRING_MAP, "resource attributes; null when the message had no resource"),
    Column("resource_attr_types", STRING_MAP, "types of resource attributes that are not strings"),
    Column("resource_dropped_attributes_count", pa.int64(), "resource attributes that the sender dropped"),
    Column("resource_entity_refs", pa.list_(ENTITY_REF), "entities that the resource refers to"),
    Column("resource_schema_url", pa.string(), "schema URL of the resource group"),
    Column("scope_name", pa.string(), "instrumentation scope; null when the message had no scope"),
    Column("scope_version", pa.string(), "version of the instrumentation scope"),
    Column("scope_attrs", STRING_MAP, "scope attributes"),
    Column("scope_attr_types", STRING_MAP, "types of scope attributes that are not strings"),
    Column("scope_dropped_attributes_count", pa.int64(), "scope attributes that the sender dropped"),
    Column("scope_schema_url", pa.string(), "schema URL of the scope group"),
    Column(
        "record_id",
        pa.binary(),
        "128-bit hash of the record, its resource and scope; of a log with whole milliseconds also of its message",
    ),
    Column("ingested_at", TIMESTAMP, "when Neve took the record in"),
)

SPANS = Table(
    name="spans",
    comment="one row a span",
    columns=(
        ORGANIZATION,
        Column("timestamp", TIMESTAMP, "start of the span, cut to microseconds", required=True),
        Column("trace_id", pa.binary(), "16 bytes"),
        Column("span_id", pa.binary(), "8 bytes"),
        Column("parent_span_id", pa.binary(), "8 bytes; null for a root span"),
        Column("service_name", pa.string(), "service.name of the resource"),
        Column("operation_name", pa.string(), "name of the span"),
        Column("span_kind", pa.int32(), "0 unspecified, 1 internal, 2 server, 3 client, 4 producer, 5 consumer"),
        Column("status_code", pa.int32(), "0 unset, 1 ok, 2 error"),
        Column("duration_ms", pa.float64(), "end minus start in milliseconds; null when the span has no end"),
        Column("start_time_unix_nano", pa.int64(), "start in nanoseconds since 1970"),
        Column("end_time_unix_nano", pa.int64(), "end in nanoseconds since 1970; 0 when unknown"),
        Column("status_message", pa.string(), "null when no status was sent"),
        Column("trace_state", pa.string(), "W3C trace state"),
        Column("flags", pa.int64(), "W3C trace flags and the remote-parent bits"),
        *ATTRIBUTES,
        DROPPED_ATTRIBUTES,
        Column("events", pa.list_(EVENT), "span events"),
        Column("dropped_events_count", pa.int64(), "events that the sender dropped"),
        Column("links", pa.list_(LINK), "links to other spans"),
        Column("dropped_links_count", pa.int64(), "links that the sender dropped"),
        *CONTEXT,
    ),
    partition=(("organization_id", "identity"), ("timestamp", "day"), ("trace_id", "bucket[16]")),
    sort=("service_name", "timestamp"),
    bounded=(
        *("organization_id", "timestamp", "trace_id", "service_name", "operation_name", "span_kind", "status_code"),
        *("duration_ms", "ingested_at"),
    ),
)

LOGS = Table(
    name="logs",
    comment="one row a log record",
    columns=(
        ORGANIZATION,
        Column("timestamp", TIMESTAMP, "event time, else observed time, else time of ingestion", required=True),
        Column("service_name", pa.string(), "service.name of the resource"),
        Column("severity_number", pa.int32(), "1-4 trace, 5-8 debug, 9-12 info, 13-16 warn, 17-20 error, 21-24 fatal"),
        Column("severity_text", pa.string(), "severity as the source wrote it"),
        Column("message", pa.string(), "body as text; null when the record has none"),
        Column("trace_id", pa.binary(), "16 bytes; null when the record belongs to no trace"),
        Column("span_id", pa.binary(), "8 bytes; null when the record belongs to no span"),
        Column("event_name", pa.string(), "name of the event that the record is"),
        Column("time_unix_nano", pa.int64(), "event time in nanoseconds since 1970; 0 when unknown"),
        Column("observed_time_unix_nano", pa.int64(), "observed time in nanoseconds since 1970; 0 when unknown"),
        Column("body_type", pa.string(), "type of the body where it is not a string (as in attribute_types)"),
        Column("flags", pa.int64(), "W3C trace flags"),
        *ATTRIBUTES,
        DROPPED_ATTRIBUTES,
        *CONTEXT,
    ),
    partition=(("organization_id", "identity"), ("timestamp", "day")),
    sort=("service_name", "timestamp"),
    bounded=(
        "organization_id",
        "timestamp",
        "service_name",
        "severity_number",
        "event_name",
        "trace_id",
        "ingested_at",
    ),
)

METRICS = Table(
    name="metrics",
    comment="one row a metric data point, of any of the five OTLP types",
    columns=(
        ORGANIZATION,
        Column("timestamp", TIMESTAMP, "time of the point, cut to microseconds", required=True),
        Column("metric_name", pa.string(), "name of the metric"),
        Column("metric_type", pa.string(), "gauge, sum, histogram, exponential_histogram or summary"),
        Column("service_name", pa.string(), "service.name of the resource"),
        Column("value", pa.float64(), "value of a gauge or sum; null for other types and for points without one"),
        Column("count", pa.int64(), "observations in a histogram, exponential histogram or summary"),
        Column("sum", pa.float64(), "sum of the observations; null when not sent"),
        Column("min", pa.float64(), "smallest observation; null when not sent"),
        Column("max", pa.float64(), "largest observation; null when not sent"),
        Column("unit", pa.string(), "unit of the metric (UCUM)"),
        Column("aggregation_temporality", pa.int32(), "0 unspecified, 1 delta, 2 cumulative; null for gauge, summary"),
        Column("is_monotonic", pa.bool_(), "whether a sum only grows; null for other types"),
        Column("time_unix_nano", pa.int64(), "time of the point in nanoseconds since 1970"),
        Column("start_time_unix_nano", pa.int64(), "start of the interval in nanoseconds since 1970; 0 when unknown"),
        Column("flags", pa.int64(), "bit 0: no recorded value"),
        Column("value_int", pa.int64(), "the exact value where the source sent an integer"),
        Column("explicit_bounds", pa.list_(pa.float64()), "upper bounds of a histogram's buckets"),
        Column("bucket_counts", pa.list_(pa.int64()), "counts of a histogram's buckets"),
        Column("scale", pa.int32(), "scale of an exponential histogram"),
        Column("zero_count", pa.int64(), "observations in an exponential histogram's zero bucket"),
        Column("zero_threshold", pa.float64(), "width of the zero bucket"),
        Column("positive", BUCKETS, "positive buckets of an exponential histogram; null when not sent"),
        Column("negative", BUCKETS, "negative buckets of an exponential histogram; null when not sent"),
        Column("quantile_values", pa.list_(QUANTILE_VALUE), "quantiles of a summary"),
        Column("exemplars", pa.list_(EXEMPLAR), "sampled observations, with the trace that made them"),
        *ATTRIBUTES,
        Column("description", pa.string(), "what the metric measures"),
        Column("metadata", STRING_MAP, "metadata of the metric"),
        Column("metadata_types", STRING_MAP, "types of metadata values that are not strings"),
        *CONTEXT,
    ),
    partition=(("organization_id", "identity"), ("timestamp", "day")),
    sort=("metric_name", "service_name", "timestamp"),
    bounded=("organization_id", "timestamp", "metric_name", "metric_type", "service_name", "value", "ingested_at"),
)

QUARANTINE = Table(
    name="quarantine",
    comment="records that could not be accepted, each with its reason and its bytes",
    columns=(
        ORGANIZATION,
        Column("quarantined_at", TIMESTAMP, "when the record was refused", required=True),
        Column("signal", pa.string(), "logs, metrics or traces"),
        Column("reason", pa.string(), "short name of the reason"),
        Column("detail", pa.string(), "what was found and what was expected"),
        Column("source", pa.string(), "file, topic or receiver that the record came from"),
        Column("position", pa.int64(), "message or line of the source that held the record, from 0"),
        Column(
            "encoding",
            pa.string(),
            "what payload is: otlp_proto, otlp_json, json_lines or csv, or file for a whole unreadable file",
        ),
        Column("payload", pa.binary(), "the record, for OTLP as a whole message with its resource and scope"),
        Column("batch_id", pa.string(), "batch that refused it"),
    ),
    partition=(("organization_id", "identity"), ("quarantined_at", "day")),
    sort=("quarantined_at",),
    bounded=("organization_id", "quarantined_at", "signal", "reason"),
)

INGESTED_FILES = Table(
    name="ingested_files",
    comment="which files were taken in, by content: planned before the data is committed, done after",
    columns=(
        ORGANIZATION,
        Column("recorded_at", TIMESTAMP, "when this line was written", required=True),
        Column("batch_id", pa.string(), "batch that the file belongs to", required=True),
        Column("state", pa.string(), "planned, done or lost", required=True),
        Column("content_hash", pa.string(), "128-bit hash of the file's bytes, as hex", required=True),
        Column("path", pa.string(), "where the file was found"),
        Column("size_bytes", pa.int64(), "size of the file"),
        Column("modified_at", TIMESTAMP, "when the file was last changed"),
        Column("signal", pa.string(), "logs, metrics or traces"),
        Column("format", pa.string(), "how the file was read"),
    ),
    partition=(("organization_id", "identity"),),
    sort=("recorded_at",),
    bounded=("organization_id", "recorded_at", "batch_id", "content_hash"),
    blooms=("content_hash",),
)

SAMPLED_SPANS = replace(
    SPANS, name="sampled_spans", comment="spans of the traces that were kept, where `tail.export` has an iceberg table"
)

LOGS_SAMPLE = sampled(LOGS)
SPANS_SAMPLE = sampled(SPANS)

TABLES = (
    *(SPANS, LOGS, METRICS, *ROLLUPS, QUARANTINE, INGESTED_FILES, SEARCH_INDEX, QUERIES),
    *(DECISIONS, OPEN_TRACES, SAMPLED_SPANS, LOGS_SAMPLE, SPANS_SAMPLE),
)
BY_SIGNAL = {Signal.TRACES: SPANS, Signal.LOGS: LOGS, Signal.METRICS: METRICS}
