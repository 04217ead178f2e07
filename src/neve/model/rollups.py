"""Rollup tables of metrics: the same columns at every level."""

import pyarrow as pa

from neve.model.columns import QUANTILE_VALUE, STRING_MAP, TIMESTAMP, Column, Table
from neve.model.levels import LEVELS, Level

BUCKETS = pa.map_(pa.int32(), pa.int64())
REGISTERS = pa.map_(pa.int32(), pa.int32())
QUANTILES = pa.map_(pa.string(), pa.float64())

COLUMNS = (
    Column("organization_id", pa.string(), "tenant that the series belongs to", required=True),
    Column("timestamp", TIMESTAMP, "start of the window", required=True),
    Column("metric_name", pa.string(), "name of the metric"),
    Column("metric_type", pa.string(), "gauge, sum, histogram, exponential_histogram or summary"),
    Column("service_name", pa.string(), "service.name of the resource, if it is kept"),
    Column("unit", pa.string(), "unit of the metric (UCUM)"),
    Column("is_monotonic", pa.bool_(), "whether a sum only grows; null for other types"),
    Column(
        "aggregation_temporality",
        pa.int32(),
        "temporality of a sum that is not monotonic: 1 delta, 2 cumulative; null for all others, where it makes no "
        "difference",
    ),
    Column("is_final", pa.bool_(), "whether the window is closed; late points still replace the row", required=True),
    Column("points", pa.int64(), "points that are aggregated in the row"),
    Column("count", pa.int64(), "values that are aggregated in the row; for histograms and summaries, observations"),
    Column("sum", pa.float64(), "sum of the values; null if a histogram does not report it"),
    Column("min", pa.float64(), "smallest value; null if a histogram does not report it"),
    Column("max", pa.float64(), "largest value; null if a histogram does not report it"),
    Column("avg", pa.float64(), "sum divided by count"),
    Column("first", pa.float64(), "earliest value; null for histograms and summaries"),
    Column("last", pa.float64(), "latest value; null for histograms and summaries"),
    Column("increase", pa.float64(), "change of a sum in the window; null if unknown"),
    Column("rate", pa.float64(), "increase per second"),
    Column("p50", pa.float64(), "median, within the relative error"),
    Column("p95", pa.float64(), "95th percentile, within the relative error"),
    Column("p99", pa.float64(), "99th percentile, within the relative error"),
    Column("quantiles", QUANTILES, "additional quantiles of the rule"),
    Column("series_count", pa.int64(), "number of raw series in the row, estimated from series_registers"),
    Column("first_time_unix_nano", pa.int64(), "time of the earliest point"),
    Column("last_time_unix_nano", pa.int64(), "time of the latest point"),
    Column("scale", pa.int32(), "scale of the buckets: bucket i ends at 2 ** ((i + 1) / 2 ** scale)"),
    Column("zero_count", pa.int64(), "values within zero_threshold of zero"),
    Column("zero_threshold", pa.float64(), "width of the zero bucket"),
    Column("positive", BUCKETS, "count of values in each bucket; rows are merged by adding the counts"),
    Column("negative", BUCKETS, "the same for values below zero, by their absolute value"),
    Column("explicit_bounds", pa.list_(pa.float64()), "upper bounds of a histogram's buckets"),
    Column("bucket_counts", pa.list_(pa.int64()), "counts of a histogram's buckets, the last one without a bound"),
    Column("quantile_values", pa.list_(QUANTILE_VALUE), "quantiles of a summary's last point"),
    Column(
        "series_registers",
        REGISTERS,
        "HyperLogLog of the raw series with 4096 registers; rows are merged by the maximum of each register",
    ),
    Column("attributes", STRING_MAP, "attributes that are kept"),
    Column("resource_attrs", STRING_MAP, "resource attributes that are kept"),
)


def declare_rollup_table(level: Level) -> Table:
    """Return the declaration of a level's table. Longer windows get longer partitions."""
    return Table(
        name=level.table,
        comment=f"metrics by {level.window}: one row per series and window, written by `neve rollup run`",
        columns=COLUMNS,
        partition=(("organization_id", "identity"), ("timestamp", level.unit)),
        sort=("metric_name", "service_name", "timestamp"),
        bounded=("organization_id", "timestamp", "metric_name", "metric_type", "service_name"),
    )


ROLLUPS = tuple(map(declare_rollup_table, LEVELS))
