"""Tables of series and of log streams: one row for each and day, so that labels are known without the data.

The table of volumes has the lines and bytes of log streams by minute, so that sizes are known without the lines.
"""

import pyarrow as pa

from neve.model.columns import STRING_MAP, TIMESTAMP, Column, Table
from neve.model.signals import SERIES_TABLES, VOLUME_TABLES

_OWNER = Column("organization_id", pa.string(), "tenant that it belongs to", required=True)
_DAY = Column("timestamp", TIMESTAMP, "start of the day (UTC)", required=True)
_SEEN = (
    Column("first_time_unix_nano", pa.int64(), "time of its first record of the day", required=True),
    Column("last_time_unix_nano", pa.int64(), "time of its last record of the day", required=True),
)
_PARTITION = (("organization_id", "identity"), ("timestamp", "day"))

METRIC_SERIES = Table(
    name=SERIES_TABLES["metrics"],
    comment="series of metrics: one row per series and day, written by `neve series run`",
    columns=(
        _OWNER,
        _DAY,
        Column("series_id", pa.int64(), "id of the series, as in metrics", required=True),
        Column("metric_name", pa.string(), "name of the metric"),
        Column("metric_type", pa.string(), "gauge, sum, histogram, exponential_histogram or summary"),
        Column("service_name", pa.string(), "service.name of the resource"),
        Column("unit", pa.string(), "unit of the metric (UCUM)"),
        Column("aggregation_temporality", pa.int32(), "0 unspecified, 1 delta, 2 cumulative; null for gauge, summary"),
        Column("is_monotonic", pa.bool_(), "whether a sum only grows; null for other types"),
        *_SEEN,
        Column("has_rows_without_id", pa.bool_(), "whether points of older releases belong to it, without its id"),
        Column("explicit_bounds", pa.list_(pa.float64()), "upper bounds of all buckets that a histogram had"),
        Column("quantiles", pa.list_(pa.float64()), "quantiles that a summary had"),
        Column("description", pa.string(), "what the metric measures"),
        Column("attributes", STRING_MAP, "attributes of its points"),
        Column("attribute_types", STRING_MAP, "types of attributes that are not strings"),
        Column("resource_attrs", STRING_MAP, "resource attributes"),
        Column("resource_attr_types", STRING_MAP, "types of resource attributes that are not strings"),
        Column("scope_name", pa.string(), "instrumentation scope"),
        Column("scope_version", pa.string(), "version of the instrumentation scope"),
        Column("scope_attrs", STRING_MAP, "scope attributes"),
        Column("scope_attr_types", STRING_MAP, "types of scope attributes that are not strings"),
    ),
    partition=_PARTITION,
    sort=("metric_name", "service_name", "series_id"),
    bounded=("organization_id", "timestamp", "series_id", "metric_name", "metric_type", "service_name"),
)

LOG_STREAMS = Table(
    name=SERIES_TABLES["logs"],
    comment="streams of logs: one row per stream and day, written by `neve series run`",
    columns=(
        _OWNER,
        _DAY,
        Column("stream_id", pa.int64(), "id of the stream, as in logs", required=True),
        Column("service_name", pa.string(), "service.name of the resource"),
        *_SEEN,
        Column("has_rows_without_id", pa.bool_(), "whether logs of older releases belong to it, without its id"),
        Column("resource_attrs", STRING_MAP, "the attributes that are labels of streams"),
    ),
    partition=_PARTITION,
    sort=("service_name", "stream_id"),
    bounded=("organization_id", "timestamp", "stream_id", "service_name"),
)

MINUTE = pa.struct([("minute", pa.int32()), ("lines", pa.int64()), ("bytes", pa.int64())])
# The time and the text of a line as LogQL reads them, in SQL of DuckDB.
LINE_TIME = "coalesce(nullif(time_unix_nano, 0), nullif(observed_time_unix_nano, 0), epoch_ns(timestamp))"
LINE_TEXT = "coalesce(message, '')"

LOG_VOLUMES = Table(
    name=VOLUME_TABLES["logs"],
    comment="sizes of log streams: one row per stream and hour, written by `neve series run`",
    columns=(
        _OWNER,
        Column("timestamp", TIMESTAMP, "start of the hour (UTC)", required=True),
        Column("stream_id", pa.int64(), "id of the stream, as in logs; null for logs of older releases"),
        Column("service_name", pa.string(), "service.name of the resource"),
        Column("resource_attrs", STRING_MAP, "the attributes that are labels of streams"),
        Column("lines", pa.int64(), "lines of the hour", required=True),
        Column("bytes", pa.int64(), "bytes of their texts", required=True),
        Column("minutes", pa.list_(MINUTE), "lines and bytes by minute of the hour"),
    ),
    partition=(("organization_id", "identity"), ("timestamp", "hour")),
    sort=("timestamp", "service_name", "stream_id"),
    bounded=("organization_id", "timestamp", "stream_id", "service_name"),
)
