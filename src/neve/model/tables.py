"""Declarations of the tables of the lake, and the list of all of them.

The Arrow schemas of the OTLP decoder, the Iceberg tables that `neve init` creates and the page `docs/tables.md` are
generated from these declarations. Frequently queried columns come first, payload columns last. Where OTLP
distinguishes more than a plain column can (an empty status from no status, for example), nulls keep the
difference, and the comment of the column says how.
"""

from dataclasses import replace

import pyarrow as pa

from neve.model.audit import AUDIT
from neve.model.columns import QUANTILE_VALUE, STRING_LIST, STRING_MAP, TIMESTAMP, Column, Table
from neve.model.decision_tables import DECISIONS, OPEN_TRACES
from neve.model.properties import METRICS_PREFIX, TARGET_FILE_SIZE_BYTES
from neve.model.query_log import QUERIES
from neve.model.recorded import RECORDED
from neve.model.rollups import ROLLUPS
from neve.model.series_tables import LOG_STREAMS, LOG_VOLUMES, METRIC_SERIES
from neve.model.signals import Signal
from neve.model.trace_tables import SERVICE_EDGES, TRACE_SUMMARIES

SEARCH_FILE_SIZE_BYTES = 64 * 1024 * 1024  # 64 MB: a lookup reads whole row groups

SEARCH_INDEX = Table(
    name="search_index",
    comment="full-text index: one row per data file, column and range of rows; written by `neve search build`",
    columns=(
        Column("organization_id", pa.string(), "tenant that the data file belongs to", required=True),
        Column("table_name", pa.string(), "table that the data file belongs to", required=True),
        Column("file_path", pa.string(), "the data file", required=True),
        Column("column_name", pa.string(), "column whose texts are indexed", required=True),
        Column("first_row", pa.int64(), "position of the range's first row in the file, from 0", required=True),
        Column("row_count", pa.int64(), "rows of the range", required=True),
        Column("words", pa.int64(), "distinct words of the range", required=True),
        Column("form", pa.int32(), "version of tokenizer and filter; others are built again", required=True),
        Column(
            "filter", pa.binary(), "split-block Bloom filter of XXH3-64 of the words, after a byte with its version"
        ),
        Column("built_at", TIMESTAMP, "when the row was written", required=True),
    ),
    partition=(("organization_id", "identity"), ("table_name", "identity")),
    sort=("file_path", "column_name", "first_row"),
    bounded=("organization_id", "table_name", "file_path", "column_name"),
    # Paths have a common prefix, so bounds of 16 characters would not distinguish them.
    properties={METRICS_PREFIX + "file_path": "full", TARGET_FILE_SIZE_BYTES: str(SEARCH_FILE_SIZE_BYTES)},
)


FIRST_PAYLOAD_COLUMN = "attributes"  # the first column that queries read only for matching rows

SAMPLING_COLUMNS = (
    Column("adjusted_count", pa.float64(), "number of records that this one represents", required=True),
    Column("sampling_weight", pa.float64(), "weight of the record: its adjusted count before, else 1"),
    Column("sampling_group", pa.string(), "group that the record was drawn from, in its organization and window"),
    Column("sampling_window", TIMESTAMP, "start of the window that the record was drawn from", required=True),
    Column("sampling_window_end", TIMESTAMP, "end of that window", required=True),
    Column("sampling_method", pa.string(), "priority or exact_total"),
    Column("sampler", pa.string(), "name of the sampler and its policy"),
)


def declare_sample_table(table: Table) -> Table:
    """Return the table for samples of a table. It has no buckets, because it has few rows."""
    names = [column.name for column in table.columns]
    place = names.index(FIRST_PAYLOAD_COLUMN)
    return replace(
        table,
        name=f"{table.name}_sample",
        comment=f"samples of {table.name}, with the number of records that each represents; by `neve reservoir lake`",
        columns=(*table.columns[:place], *SAMPLING_COLUMNS, *table.columns[place:]),
        partition=tuple(part for part in table.partition if "bucket" not in part[1]),
        bounded=(*table.bounded, "sampling_window"),
    )


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
        "empty, unset, or exact: and the value's protobuf in base64 if JSON can't represent it; for a key that was "
        "sent several times also its earlier values, under the key and ` (earlier)`",
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
    Column("ingested_at", TIMESTAMP, "time of ingestion"),
)

ARRIVAL = (
    Column(
        "arrival_order",
        pa.int64(),
        "place among the spans with the same ingested_at, in the order of arrival; null when unknown",
    ),
    Column(
        "dropped_repeats",
        pa.int64(),
        "equal spans that arrived in the same batch and were dropped; null when none were, or when it is not known; "
        "later ones are in span_repeats",
    ),
)

SPANS = Table(
    name="spans",
    comment="one row per span",
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
        *ARRIVAL,
        *CONTEXT,
    ),
    partition=(("organization_id", "identity"), ("timestamp", "day"), ("trace_id", "bucket[16]")),
    sort=("service_name", "timestamp"),
    bounded=(
        *("organization_id", "timestamp", "trace_id", "service_name", "operation_name", "span_kind", "status_code"),
        *("duration_ms", "ingested_at"),
    ),
)

SPAN_REPEATS = Table(
    name="span_repeats",
    comment="spans that arrived again after they were stored, which tail sampling counts as the collector does",
    columns=(
        ORGANIZATION,
        Column("recorded_at", TIMESTAMP, "start of the batch that dropped the repeat", required=True),
        Column("trace_id", pa.binary(), "16 bytes"),
        Column("span_id", pa.binary(), "8 bytes"),
        Column("start_time_unix_nano", pa.int64(), "start in nanoseconds since 1970"),
        Column("end_time_unix_nano", pa.int64(), "end in nanoseconds since 1970; 0 when unknown"),
        Column("span_bytes", pa.int64(), "size of the span, as tail sampling estimates it"),
        Column("ingested_at", TIMESTAMP, "time of ingestion of the repeat"),
        Column(
            "arrival_order",
            pa.int64(),
            "place among the spans with the same ingested_at, in the order of arrival; null when unknown",
        ),
        Column("batch_id", pa.string(), "batch that dropped the repeat; it counts once spans has this batch"),
    ),
    partition=(("organization_id", "identity"), ("recorded_at", "day")),
    sort=("trace_id",),
    bounded=("organization_id", "recorded_at", "trace_id", "batch_id"),
)

LOGS = Table(
    name="logs",
    comment="one row per log record",
    columns=(
        ORGANIZATION,
        Column("timestamp", TIMESTAMP, "event time, else observed time, else time of ingestion", required=True),
        Column("service_name", pa.string(), "service.name of the resource"),
        Column("stream_id", pa.int64(), "64-bit hash of the attributes that are labels of streams; null in older rows"),
        Column("severity_number", pa.int32(), "1-4 trace, 5-8 debug, 9-12 info, 13-16 warn, 17-20 error, 21-24 fatal"),
        Column("severity_text", pa.string(), "severity as the source wrote it"),
        Column("message", pa.string(), "body as text; null when the record has none"),
        Column("trace_id", pa.binary(), "16 bytes; null when the record belongs to no trace"),
        Column("span_id", pa.binary(), "8 bytes; null when the record belongs to no span"),
        Column("event_name", pa.string(), "name of the event"),
        Column("time_unix_nano", pa.int64(), "event time in nanoseconds since 1970; 0 when unknown"),
        Column("observed_time_unix_nano", pa.int64(), "observed time in nanoseconds since 1970; 0 when unknown"),
        Column("body_type", pa.string(), "type of the body if it is not a string (as in attribute_types)"),
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
        "stream_id",
        "severity_number",
        "event_name",
        "trace_id",
        "ingested_at",
    ),
)

METRICS = Table(
    name="metrics",
    comment="one row per metric data point, of any of the five OTLP types",
    columns=(
        ORGANIZATION,
        Column("timestamp", TIMESTAMP, "time of the point, cut to microseconds", required=True),
        Column("metric_name", pa.string(), "name of the metric"),
        Column("metric_type", pa.string(), "gauge, sum, histogram, exponential_histogram or summary"),
        Column("service_name", pa.string(), "service.name of the resource"),
        Column("series_id", pa.int64(), "64-bit hash of metric, attributes, resource and scope; null in older rows"),
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
        Column("value_int", pa.int64(), "the exact value if the source sent an integer"),
        Column("explicit_bounds", pa.list_(pa.float64()), "upper bounds of a histogram's buckets"),
        Column("bucket_counts", pa.list_(pa.int64()), "counts of a histogram's buckets"),
        Column("scale", pa.int32(), "scale of an exponential histogram"),
        Column("zero_count", pa.int64(), "observations in an exponential histogram's zero bucket"),
        Column("zero_threshold", pa.float64(), "width of the zero bucket"),
        Column("positive", BUCKETS, "positive buckets of an exponential histogram; null when not sent"),
        Column("negative", BUCKETS, "negative buckets of an exponential histogram; null when not sent"),
        Column("quantile_values", pa.list_(QUANTILE_VALUE), "quantiles of a summary"),
        Column("exemplars", pa.list_(EXEMPLAR), "sampled observations, with their trace"),
        *ATTRIBUTES,
        Column("description", pa.string(), "what the metric measures"),
        Column("metadata", STRING_MAP, "metadata of the metric"),
        Column("metadata_types", STRING_MAP, "types of metadata values that are not strings"),
        *CONTEXT,
    ),
    partition=(("organization_id", "identity"), ("timestamp", "day")),
    sort=("metric_name", "service_name", "series_id", "timestamp"),
    bounded=(
        *("organization_id", "timestamp", "metric_name", "metric_type", "service_name", "series_id", "value"),
        "ingested_at",
    ),
)

QUARANTINE = Table(
    name="quarantine",
    comment="rejected records, each with its reason and its bytes",
    columns=(
        ORGANIZATION,
        Column("quarantined_at", TIMESTAMP, "when the record was rejected", required=True),
        Column("signal", pa.string(), "logs, metrics or traces"),
        Column("reason", pa.string(), "short name of the reason"),
        Column("detail", pa.string(), "what was found and what was expected"),
        Column("source", pa.string(), "file, topic or receiver that the record came from"),
        Column("position", pa.int64(), "number of the message or line in the source, from 0"),
        Column(
            "encoding",
            pa.string(),
            "format of the payload: otlp_proto, otlp_json, json_lines, csv, json for a document of several lines, "
            "the format of a log file, or file for a whole unreadable file",
        ),
        Column("payload", pa.binary(), "the record, for OTLP as a whole message with its resource and scope"),
        Column("batch_id", pa.string(), "batch that rejected the record"),
    ),
    partition=(("organization_id", "identity"), ("quarantined_at", "day")),
    sort=("quarantined_at",),
    bounded=("organization_id", "quarantined_at", "signal", "reason"),
)

INGESTED_FILES = Table(
    name="ingested_files",
    comment="ledger of ingested files, by content: planned before their data is committed, done afterwards",
    columns=(
        ORGANIZATION,
        Column("recorded_at", TIMESTAMP, "when this entry was written", required=True),
        Column("batch_id", pa.string(), "batch that the file belongs to", required=True),
        Column("state", pa.string(), "planned, done or lost", required=True),
        Column("content_hash", pa.string(), "128-bit hash of the file's bytes, as hex", required=True),
        Column("path", pa.string(), "path of the file"),
        Column("size_bytes", pa.int64(), "size of the file"),
        Column("modified_at", TIMESTAMP, "when the file was last changed"),
        Column("signal", pa.string(), "logs, metrics or traces"),
        Column("format", pa.string(), "format of the file"),
    ),
    partition=(("organization_id", "identity"),),
    sort=("recorded_at",),
    bounded=("organization_id", "recorded_at", "batch_id", "content_hash"),
    blooms=("content_hash",),
)

SAMPLED_SPANS = replace(
    SPANS, name="sampled_spans", comment="spans of sampled traces, if `tail.export` has an iceberg table"
)

LOGS_SAMPLE = declare_sample_table(LOGS)
SPANS_SAMPLE = declare_sample_table(SPANS)

TABLES = (
    *(SPANS, SPAN_REPEATS, LOGS, METRICS, *ROLLUPS, METRIC_SERIES, LOG_STREAMS, LOG_VOLUMES),
    *(TRACE_SUMMARIES, SERVICE_EDGES),
    *(QUARANTINE, INGESTED_FILES, SEARCH_INDEX, QUERIES, AUDIT),
    *(DECISIONS, OPEN_TRACES, SAMPLED_SPANS, LOGS_SAMPLE, SPANS_SAMPLE, RECORDED),
)
BY_SIGNAL = {Signal.TRACES: SPANS, Signal.LOGS: LOGS, Signal.METRICS: METRICS}
