"""Metrics without their points: what all points of a metric share."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from neve.otlp.columns import relist, struct
from neve.otlp.envelope import runs
from neve.otlp.parse import Indices
from neve.otlp.refuse import affordable, lengths
from neve.otlp.texts import nulls
from neve.otlp.wire import POINTS, handler

METRIC = "metrics.v1.Metric"


@dataclass(frozen=True)
class Headers:
    """Metrics whose lists of points are empty: as columns, and each as a message."""

    batch: pa.RecordBatch
    wires: pa.BinaryArray

    @classmethod
    def of(cls, metrics: pa.RecordBatch) -> "Headers":
        """The headers of these metrics."""
        columns = {field.name: metrics.column(field.name) for field in metrics.schema}
        for kind in POINTS:
            lists = columns[kind].field("data_points")
            empty = relist(pa.nulls(len(lists), lists.type), pa.array([], pa.binary()))
            columns[kind] = _with_points(columns[kind], empty)
        batch = pa.RecordBatch.from_pydict(columns)
        return cls(batch, handler(METRIC).record_batch_to_array(batch))

    def around(self, kind: str, points: pa.BinaryArray, metric: Indices) -> pa.BinaryArray:
        """For each point a metric that holds it alone; null from where on they would fill too much memory."""
        count = affordable(lengths(self.wires)[metric] + lengths(points))
        alone = runs(points.slice(0, count), np.arange(count))
        batch = self.batch.take(pa.array(metric[:count]))
        columns = {field.name: batch.column(field.name) for field in batch.schema}
        columns |= {other: pa.nulls(count, columns[other].type) for other in POINTS if other != kind}
        columns[kind] = _with_points(columns[kind], alone)
        wires = handler(METRIC).record_batch_to_array(pa.RecordBatch.from_pydict(columns))
        return pa.concat_arrays([wires, pa.nulls(len(points) - count, pa.binary())])


def _with_points(data: pa.StructArray, points: pa.ListArray) -> pa.StructArray:
    fields = {field.name: data.field(field.name) for field in data.type} | {"data_points": points}
    return struct(fields, null=nulls(data))
