"""What tail sampling in memory says of itself to Prometheus, besides what every selector says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from neve.tail.memory.result import MemoryResult

HELD = Gauge("neve_tail_memory_held_bytes", "bytes of spans whose traces are not decided yet", ["selector"])
EARLY = Counter(
    "neve_tail_memory_early_traces", "traces decided before they were complete: memory was short", ["selector"]
)
FORGOTTEN = Counter(
    "neve_tail_memory_forgotten_traces",
    "decisions that were forgotten before their time: there were too many",
    ["selector"],
)
REFUSED = Counter(
    "neve_tail_memory_refused", "fed records that are no spans of a trace, by reason", ["selector", "reason"]
)
LOST = Counter(
    "neve_tail_memory_lost_spans", "kept spans that could not be held for a destination", ["selector", "destination"]
)
WAITING = Gauge(
    "neve_tail_memory_waiting_bytes", "bytes of kept spans that wait for a destination", ["selector", "destination"]
)


def count_memory(result: MemoryResult) -> None:
    """A cycle in memory came to its end."""
    HELD.labels(result.selector).set(result.held_bytes)
    EARLY.labels(result.selector).inc(result.early.traces)
    FORGOTTEN.labels(result.selector).inc(result.forgotten)
