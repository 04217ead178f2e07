"""Runtime metrics: processor, memory and garbage collection of each process, following the load it has served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from opentelemetry.proto.metrics.v1.metrics_pb2 import SummaryDataPoint

from neve.demo.metric import CUMULATIVE, Metric, Point, Stream, double_points, int_points
from neve.demo.protobuf import key_values
from neve.demo.timeline import PERIOD, Exports, Floats, Ints, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.demo.fleet import Instance

MEMORY_MIB = {
    "cpp": 24, "dotnet": 180, "go": 64, "java": 420, "nodejs": 210, "python": 260, "ruby": 150, "rust": 18,
}  # fmt: skip
MEMORY_LIMIT_MIB = 1024
COLLECTED = ("go", "java")  # languages whose collector's pauses are reported
QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)

CPU = Metric("process.cpu.utilization", "1", "share of one processor in use", "gauge")
CPU_TIME = Metric("process.cpu.time", "s", "processor time used", "sum", CUMULATIVE, monotonic=True)
MEMORY = Metric("process.memory.usage", "By", "resident memory", "gauge")
PAUSES = Metric("process.runtime.gc.pause", "ms", "pauses for garbage collection", "summary")


def runtime_streams(instance: Instance, ends: Ints, timeline: Timeline, rng: np.random.Generator) -> Iterator[Stream]:
    """Yield the runtime metrics of an instance that has finished requests at the given instants."""
    for number, process in enumerate(instance.runs):
        exports = timeline.exports(process)
        dying = number + 1 < len(instance.runs)
        cpu = _cpu(exports, ends, rng)
        times = exports.times
        seconds = np.cumsum(cpu * (times - exports.previous) / 1e9)
        yield Stream(instance, CPU, double_points(None, times, cpu, {"cpu.mode": "user"}))
        yield Stream(instance, CPU_TIME, double_points(exports.starts(cumulative=True), times, seconds, {}))
        yield Stream(instance, MEMORY, int_points(None, times, _memory(instance, exports, rng, dying=dying), {}))
        if instance.service.language in COLLECTED:
            yield Stream(instance, PAUSES, _pauses(instance, exports, rng))


def _cpu(exports: Exports, ends: Ints, rng: np.random.Generator) -> Floats:
    """Return the processor's use at each export: a floor, and more for each request served since the last."""
    mine = ends[(ends > exports.process.start) & (ends <= exports.times[-1])]
    served = np.bincount(exports.slots(mine), minlength=len(exports.times))
    seconds = np.maximum(exports.times - exports.previous, PERIOD / 15) / 1e9
    noise = rng.normal(0.0, 0.012, len(served))
    share: Floats = 0.04 + 0.05 * served / seconds + noise
    return share.clip(0.005, 0.99).round(4)


def _memory(instance: Instance, exports: Exports, rng: np.random.Generator, *, dying: bool) -> Ints:
    """Return resident bytes: a saw about the language's usual size, or a climb to the limit in a dying process."""
    size, base = len(exports.times), float(MEMORY_MIB[instance.service.language])
    saw = 0.12 * ((np.arange(size) * 7 + int(rng.integers(20))) % 20) / 20
    climb = np.linspace(0.0, MEMORY_LIMIT_MIB / base - 1.15, size) if dying else np.zeros(size)
    mib = base * (1.0 + saw + climb + rng.normal(0.0, 0.01, size))
    return (np.minimum(mib, MEMORY_LIMIT_MIB) * 2**20).astype(np.int64)


def _pauses(instance: Instance, exports: Exports, rng: np.random.Generator) -> list[Point]:
    """Return summaries of pauses: totals since the process began, quantiles of the last period."""
    labels = key_values({"gc.name": "G1 Young Generation" if instance.service.language == "java" else "mark-sweep"})
    scale = 6.0 if instance.service.language == "java" else 0.4
    counts = rng.poisson(3.0, len(exports.times)) + 1
    quantiles = np.sort(rng.lognormal(np.log(scale), 0.5, (len(counts), len(QUANTILES))), axis=1)
    sums = np.cumsum(quantiles.mean(axis=1) * counts)
    rows = zip(
        exports.times.tolist(), counts.cumsum().tolist(), sums.tolist(), quantiles.round(3).tolist(), strict=True
    )
    return [
        SummaryDataPoint(
            start_time_unix_nano=exports.process.start,
            time_unix_nano=time,
            count=count,
            sum=total,
            quantile_values=[
                SummaryDataPoint.ValueAtQuantile(quantile=quantile, value=value)
                for quantile, value in zip(QUANTILES, values, strict=True)
            ],
            attributes=labels,
        )
        for time, count, total, values in rows
    ]
