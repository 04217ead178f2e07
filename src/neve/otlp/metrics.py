"""Metrics: messages that hold metrics that hold points, to one row a point, and back.

`MetricHeaders` are metrics without their points: the fields that all points of a metric share.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.tables import METRICS
from neve.otlp.attributes import decode_attributes, encode_attributes
from neve.otlp.columns import constant, empty_to_null, null_to_zero, relist, struct, text_or_empty, to_timestamps
from neve.otlp.decode_result import Intake, Rejected
from neve.otlp.digest import Digests, digests
from neve.otlp.envelope import Envelope, Rows, WireContext, find_changes, list_runs
from neve.otlp.metric_points import Columns, decode_point_columns, encode_point_columns
from neve.otlp.protobuf import POINTS, Indices, handler
from neve.otlp.validation import (
    RecordFilter,
    check_text,
    check_time,
    count_affordable,
    find_failures,
    reject,
    value_sizes,
)
from neve.otlp.value_columns import null_mask

METRIC = "metrics.v1.Metric"


@dataclass(frozen=True)
class MetricHeaders:
    """Metrics with empty lists of points: as columns, and each as a message."""

    batch: pa.RecordBatch
    wires: pa.BinaryArray

    @classmethod
    def of(cls, metrics: pa.RecordBatch) -> "MetricHeaders":
        """Return the headers of these metrics."""
        columns = {field.name: metrics.column(field.name) for field in metrics.schema}
        for kind in POINTS:
            lists = columns[kind].field("data_points")
            empty = relist(pa.nulls(len(lists), lists.type), pa.array([], pa.binary()))
            columns[kind] = _with_points(columns[kind], empty)
        batch = pa.RecordBatch.from_pydict(columns)
        return cls(batch, handler(METRIC).record_batch_to_array(batch))

    def around(self, kind: str, points: pa.BinaryArray, metric: Indices) -> pa.BinaryArray:
        """Return a metric with a single point for each point.

        It is null from the point on at which the metrics would fill too much memory.
        """
        count = count_affordable(value_sizes(self.wires)[metric] + value_sizes(points))
        alone = list_runs(points.slice(0, count), np.arange(count))
        batch = self.batch.take(pa.array(metric[:count]))
        columns = {field.name: batch.column(field.name) for field in batch.schema}
        columns |= {other: pa.nulls(count, columns[other].type) for other in POINTS if other != kind}
        columns[kind] = _with_points(columns[kind], alone)
        wires = handler(METRIC).record_batch_to_array(pa.RecordBatch.from_pydict(columns))
        return pa.concat_arrays([wires, pa.nulls(len(points) - count, pa.binary())])


def _with_points(data: pa.StructArray, points: pa.ListArray) -> pa.StructArray:
    fields = {field.name: data.field(field.name) for field in data.type} | {"data_points": points}
    return struct(fields, null=null_mask(data))


KINDS = tuple(POINTS)
WITH_TEMPORALITY = ("sum", "histogram", "exponential_histogram")
# Columns that come from a point's own message. The others belong to its metric, its group or its receiver.
POINT_FIELDS = tuple(
    METRICS.schema.field(name)
    for name in (
        *("time_unix_nano", "start_time_unix_nano", "flags", "attributes", "attribute_types"),
        *("value", "value_int", "count", "sum", "min", "max", "bucket_counts", "explicit_bounds"),
        *("scale", "zero_count", "zero_threshold", "positive", "negative", "quantile_values", "exemplars"),
    )
)
METADATA = ("metadata", "metadata_types")


@dataclass(frozen=True)
class Points:
    """Accepted points of one metric type, and the metric of each."""

    columns: Columns
    metric: Indices
    digests: Digests
    rejected: tuple[Rejected, ...]
    duplicate_keys: int


def decode_points(envelope: Envelope, intake: Intake) -> Rows:
    """Decode the metrics of an envelope to one row for each data point, in the order of the message."""
    filtered, maps = RecordFilter.parse(METRIC, envelope.records).decode(
        lambda batch: decode_attributes(batch.column("metadata"))
    )
    metrics, rejected = filtered.batch, reject(envelope, filtered.refused)
    envelope = envelope.select(filtered.index) if filtered.refused else envelope
    headers = MetricHeaders.of(metrics)
    kinds = [_decode_kind(kind, metrics, headers, envelope, intake) for kind in KINDS]
    present = [points for points in kinds if len(points.metric)]
    metric = np.concatenate([points.metric for points in kinds])
    columns = _concat([points.columns for points in present or kinds[:1]])
    kind = np.concatenate([np.full(len(points.metric), number) for number, points in enumerate(kinds)])
    columns |= _metric_columns(metrics, kind, metric)
    columns |= {"metadata": maps.attributes.take(pa.array(metric)), "metadata_types": maps.types.take(pa.array(metric))}
    columns["timestamp"] = to_timestamps(columns["time_unix_nano"])
    order = np.argsort(metric, kind="stable")
    if len(present) > 1:
        columns = {name: column.take(pa.array(order)) for name, column in columns.items()}
    point_digests = np.concatenate([points.digests for points in kinds])
    return Rows(
        columns=columns,
        envelope=_of_points(envelope, metric[order]),
        # The metric's own digest is folded into the point's, so that equal points of two metrics differ.
        digests=(point_digests + digests(headers.wires)[metric] * np.uint64(3))[order],
        rejected=(*rejected, *(refused for points in kinds for refused in points.rejected)),
        duplicate_keys=maps.duplicate_keys + sum(points.duplicate_keys for points in kinds),
        pointless_metrics=_count_pointless(metrics),
        metric=(metric * len(KINDS) + kind)[order],
    )


def _decode_kind(
    kind: str, metrics: pa.RecordBatch, headers: MetricHeaders, envelope: Envelope, intake: Intake
) -> Points:
    lists = metrics.column(kind).field("data_points")
    metric, wires = pc.list_parent_indices(lists).to_numpy(), lists.flatten()
    parsed = RecordFilter.parse(POINTS[kind], wires)
    checks = [
        check_text("metric_name", metrics.column("name").take(pa.array(metric[parsed.index]))),
        *check_time("time_unix_nano", parsed.batch.column("time_unix_nano"), intake, needed=True),
    ]
    checked = parsed.without(find_failures(checks))
    filtered, (columns, duplicates) = checked.decode(lambda batch: decode_point_columns(kind, batch))
    if not filtered.refused:
        return Points(columns, metric, digests(wires), (), duplicates)
    out = np.array([row for row, *_why in filtered.refused])
    alone = headers.around(kind, wires.take(pa.array(out)), metric[out])
    points = replace(_of_points(envelope, metric[out]), records=alone)
    rejected = reject(points, [(place, reason, why) for place, (_row, reason, why) in enumerate(filtered.refused)])
    accepted = wires.take(pa.array(filtered.index))
    return Points(columns, metric[filtered.index], digests(accepted), tuple(rejected), duplicates)


def _concat(parts: list[Columns]) -> Columns:
    return {
        field.name: pa.concat_arrays(
            [
                part[field.name].cast(field.type)
                if field.name in part
                else pa.nulls(len(part["time_unix_nano"]), field.type)
                for part in parts
            ]
        )
        for field in POINT_FIELDS
    }


def _metric_columns(metrics: pa.RecordBatch, kind: Indices, metric: Indices) -> Columns:
    """Return the columns that a point gets from its metric."""
    at = pa.array(metric)
    temporalities = [pc.struct_field(metrics.column(name), "aggregation_temporality") for name in WITH_TEMPORALITY]
    return {
        "metric_name": metrics.column("name").take(at),
        "metric_type": pa.array(KINDS).take(pa.array(kind.astype(np.int64))),
        "unit": empty_to_null(metrics.column("unit").take(at)),
        "description": empty_to_null(metrics.column("description").take(at)),
        "aggregation_temporality": pc.coalesce(*temporalities).take(at),
        "is_monotonic": pc.struct_field(metrics.column("sum"), "is_monotonic").take(at),
    }


def _of_points(envelope: Envelope, metric: Indices) -> Envelope:
    """Return the envelope with points instead of metrics; the records' bytes are no longer needed."""
    return replace(
        envelope,
        records=pa.nulls(len(metric), pa.binary()),
        group=envelope.group[metric],
        message=envelope.message[metric],
    )


def _count_pointless(metrics: pa.RecordBatch) -> int:
    counts = sum(
        pc.fill_null(pc.list_value_length(metrics.column(kind).field("data_points")), 0).to_numpy() for kind in KINDS
    )
    return int(np.sum(counts == 0))


def encode_points(rows: pa.RecordBatch, around: WireContext) -> tuple[pa.BinaryArray, Indices]:
    """Encode rows as `Metric` messages, and return the first row of each; neighbours of one metric share a message."""
    points = _encode_all(rows)
    description = {
        "name": text_or_empty(rows.column("metric_name")),
        "description": text_or_empty(rows.column("description")),
        "unit": text_or_empty(rows.column("unit")),
        "metadata": encode_attributes(*(rows.column(name) for name in METADATA)),
    }
    types = (rows.column(name) for name in ("metric_type", "aggregation_temporality", "is_monotonic"))
    header = handler(METRIC).record_batch_to_array(_metric_batch(rows, description, None))
    starts = np.flatnonzero(find_changes(header, *types, *around.columns))
    first = rows.take(pa.array(starts))
    described = {name: column.take(pa.array(starts)) for name, column in description.items()}
    return handler(METRIC).record_batch_to_array(_metric_batch(first, described, list_runs(points, starts))), starts


def _encode_all(rows: pa.RecordBatch) -> pa.BinaryArray:
    """Encode every row as a message of its type."""
    kinds = rows.column("metric_type")
    parts, places = [], []
    for kind in KINDS:
        place = np.flatnonzero(pc.equal(kinds, kind).to_numpy(zero_copy_only=False))
        if len(place):
            batch = pa.RecordBatch.from_pydict(encode_point_columns(kind, rows.take(pa.array(place))))
            parts.append(handler(POINTS[kind]).record_batch_to_array(batch))
            places.append(place)
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places))))


def _metric_batch(rows: pa.RecordBatch, description: Columns, points: pa.ListArray | None) -> pa.RecordBatch:
    kinds = rows.column("metric_type")
    data = points if points is not None else constant([], pa.list_(pa.binary()), rows.num_rows)
    columns = dict(description)
    for kind in KINDS:
        fields = {"data_points": data}
        if kind in WITH_TEMPORALITY:
            fields["aggregation_temporality"] = null_to_zero(rows.column("aggregation_temporality"), pa.int32())
        if kind == "sum":
            fields["is_monotonic"] = null_to_zero(rows.column("is_monotonic"), pa.bool_())
        columns[kind] = struct(fields, null=~pc.equal(kinds, kind).to_numpy(zero_copy_only=False))
    return pa.RecordBatch.from_pydict(columns)
