"""Tables about traces: one row for each trace, and the calls between services by minute."""

import pyarrow as pa

from neve.model.columns import TIMESTAMP, Column, Table
from neve.model.signals import SERVICE_EDGES_TABLE, TRACE_SUMMARIES_TABLE

SERVICE = pa.struct(
    [
        ("service_name", pa.string()),
        ("spans", pa.int64()),
        ("errors", pa.int64()),
        ("critical_path_nano", pa.int64()),
    ]
)
CALL = pa.struct(
    [
        ("minute", TIMESTAMP),
        ("client", pa.string()),
        ("server", pa.string()),
        ("connection_type", pa.string()),
        ("is_failed", pa.bool_()),
        ("weight", pa.float64()),
        ("client_ms", pa.float64()),
        ("server_ms", pa.float64()),
    ]
)
BUCKETS = pa.map_(pa.int32(), pa.float64())
BUCKET_SCALE = 5  # of latency: 32 buckets between a value and its double, so quantiles are within 1.1 %
LOWEST_BUCKET = -1280  # 2 ** -40 seconds: shorter calls, and those that end before they start

_OWNER = Column("organization_id", pa.string(), "tenant that the traces belong to", required=True)

TRACE_SUMMARIES = Table(
    name=TRACE_SUMMARIES_TABLE,
    comment="traces: one row per trace, written by `neve traces run`",
    columns=(
        _OWNER,
        Column("timestamp", TIMESTAMP, "start of the first span, cut to microseconds", required=True),
        Column("trace_id", pa.binary(), "16 bytes", required=True),
        Column("root_service_name", pa.string(), "service of the root span; null while no root was received"),
        Column("root_operation_name", pa.string(), "name of the root span"),
        Column("root_status_code", pa.int32(), "status of the root span: 0 unset, 1 ok, 2 error"),
        Column("duration_ms", pa.float64(), "from the first start to the last end, in milliseconds"),
        Column("span_count", pa.int64(), "spans", required=True),
        Column("error_count", pa.int64(), "spans with the status error", required=True),
        Column("missing_parents", pa.int64(), "spans whose parent was not received", required=True),
        Column("start_time_unix_nano", pa.int64(), "first start in nanoseconds since 1970", required=True),
        Column("end_time_unix_nano", pa.int64(), "last end in nanoseconds since 1970", required=True),
        Column("last_start_unix_nano", pa.int64(), "last start in nanoseconds since 1970", required=True),
        Column(
            "services",
            pa.list_(SERVICE),
            "services, those with the most spans first: spans, errors, and nanoseconds on the critical path; these are "
            "null in traces of more than traces.critical_path_spans spans",
        ),
        Column("calls", pa.list_(CALL), "calls between services, from which service_edges is made"),
    ),
    partition=(("organization_id", "identity"), ("timestamp", "hour")),
    sort=("timestamp",),
    bounded=(
        *("organization_id", "timestamp", "root_service_name", "duration_ms", "error_count"),
        *("start_time_unix_nano", "end_time_unix_nano", "last_start_unix_nano"),
    ),
)

SERVICE_EDGES = Table(
    name=SERVICE_EDGES_TABLE,
    comment="calls between services by minute, written by `neve traces run`; sum the rows of an edge and minute",
    columns=(
        _OWNER,
        Column("timestamp", TIMESTAMP, "start of the minute in which the calls began", required=True),
        Column("trace_minute", TIMESTAMP, "start of the minute in which their traces began", required=True),
        Column("client", pa.string(), "calling service, or user", required=True),
        Column("server", pa.string(), "called service, or the database, queue or peer that sends no spans"),
        Column("connection_type", pa.string(), "empty, database, messaging_system or virtual_node", required=True),
        Column("calls", pa.int64(), "calls", required=True),
        Column("errors", pa.int64(), "calls of which a span has the status error", required=True),
        Column("estimated_calls", pa.float64(), "calls that these represent, by their adjusted counts", required=True),
        Column("estimated_errors", pa.float64(), "the same of failed calls", required=True),
        Column("server_seconds", pa.float64(), "sum of the seconds in the called service, by adjusted counts"),
        Column("client_seconds", pa.float64(), "sum of the seconds in the calling service, by adjusted counts"),
        Column(
            "server_buckets",
            BUCKETS,
            "estimated calls by latency in the called service, or in the caller if the called sends no spans: bucket i "
            f"ends at 2 ** ((i + 1) / {1 << BUCKET_SCALE}) seconds",
        ),
        Column("client_buckets", BUCKETS, "the same by latency in the calling service, or in the called"),
    ),
    partition=(("organization_id", "identity"), ("timestamp", "day")),
    sort=("timestamp", "client", "server"),
    bounded=("organization_id", "timestamp", "trace_minute", "client", "server"),
)
