"""What the sampler of the lake says of itself to Prometheus, beside that of folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.reservoir import metrics

if TYPE_CHECKING:
    from neve.reservoir.lake.result import LakeRun


def count_run(result: LakeRun) -> None:
    """A run came to its end."""
    for counter, number in (
        (metrics.WINDOWS, len(result.windows)),
        (metrics.RECORDS, result.records),
        (metrics.KEPT, result.kept),
        (metrics.BYTES, result.bytes),
        (metrics.AS_ONE, result.counted_as_one),
    ):
        counter.labels(result.source).inc(number)


def count_failure(table: str) -> None:
    """A run ended in an error."""
    metrics.FAILURES.labels(table).inc()
