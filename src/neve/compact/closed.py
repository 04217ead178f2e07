"""Closed partitions: nothing more is expected for them, so that it pays to look for records that are there twice."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.compact.context import Context
    from neve.compact.measure import Measure
    from neve.compact.plan import Partition

MICROS = 1_000_000


def to_look_through(measures: Sequence[Measure], context: Context) -> tuple[Partition, ...]:
    """Closed partitions that got files since they were looked through; the oldest first."""
    config = context.config
    if not config.deduplicate or not context.table.has_record_id:
        return ()
    closed = context.now.astimezone(UTC) - timedelta(seconds=config.close_seconds)
    closed_us = int(closed.timestamp() * MICROS)
    found = [
        (measure.stats.time_high, measure.partition)
        for measure in measures
        if measure.stats.time_high is not None
        and measure.stats.time_high < closed_us
        and measure.stats.newest_sequence > context.memory(measure.partition).deduplicated_sequence
    ]
    ordered = sorted(found, key=lambda one: (one[0], one[1].spec_id, one[1].label))
    return tuple(partition for _time, partition in ordered[: config.duplicate_partitions])
