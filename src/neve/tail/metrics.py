"""Prometheus metrics of selectors: cycles, decisions and deliveries, and the memory that selectors in memory use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from neve.tail.decisions import CycleResult
    from neve.tail.memory.cycle import MemoryCycleResult


CYCLES = Counter("neve_tail_cycles", "finished cycles, by whether they committed", ["selector", "did"])
SPANS = Counter("neve_tail_spans", "spans read for decisions", ["selector"])
TRACES = Counter("neve_tail_traces", "traces decided for the first time, by decision", ["selector", "decision"])
KEPT = Counter("neve_tail_kept_spans", "spans of sampled traces", ["selector"])
POLICY_TRACES = Counter("neve_tail_policy_traces", "traces that a policy kept or dropped", ["selector", "policy"])
POLICY_SPANS = Counter(
    "neve_tail_policy_spans", "spans of traces that a policy kept or dropped", ["selector", "policy"]
)
LATE = Counter("neve_tail_late_spans", "spans that arrived after their trace was decided", ["selector"])
REVISED = Counter("neve_tail_revised_traces", "decisions that late spans changed", ["selector"])
TAKEN = Counter("neve_tail_taken_traces", "sampled traces that another selector exports", ["selector"])
FAILURES = Counter("neve_tail_failures", "failed cycles and deliveries, which are retried", ["selector"])
UNAVAILABLE = Counter(
    "neve_tail_away", "deliveries that ended because the destination was unavailable", ["selector", "destination"]
)
LAST = Gauge("neve_tail_last_cycle_timestamp_seconds", "time of the last successful cycle", ["selector"])
OPEN = Gauge("neve_tail_open_traces", "undecided traces", ["selector"])
CLAIMS_AWAY = Gauge("neve_tail_claims_away", "1: Redis is unavailable, selectors can't claim traces", ["selector"])
BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
SECONDS = Histogram("neve_tail_seconds", "seconds from planning to the commit", ["selector"], buckets=BUCKETS)


def count_cycle(result: CycleResult) -> None:
    """Record the metrics of a finished cycle."""
    name = result.selector
    CYCLES.labels(name, "commit" if result.committed else "nothing").inc()
    SPANS.labels(name).inc(result.spans)
    others = result.decided.traces - result.sampled.traces - result.dropped.traces + result.revised.traces
    for decision, count in (
        ("sampled", result.sampled.traces - result.revised.traces),
        ("dropped", result.dropped.traces),
        ("not_sampled", others),
    ):
        TRACES.labels(name, decision).inc(count)
    KEPT.labels(name).inc(result.sampled.spans)
    for policy, decided in result.policies.items():
        POLICY_TRACES.labels(name, policy).inc(decided.traces)
        POLICY_SPANS.labels(name, policy).inc(decided.spans)
    LATE.labels(name).inc(result.late.spans)
    REVISED.labels(name).inc(result.revised.traces)
    TAKEN.labels(name).inc(result.taken.traces)
    OPEN.labels(name).set(result.open)
    LAST.labels(name).set_to_current_time()
    CLAIMS_AWAY.labels(name).set(any("Redis" in remark for remark in result.remarks))
    SECONDS.labels(name).observe(result.seconds)


HELD = Gauge("neve_tail_memory_held_bytes", "bytes of spans of undecided traces", ["selector"])
EARLY = Counter("neve_tail_memory_early_traces", "traces decided early because memory was full", ["selector"])
FORGOTTEN = Counter(
    "neve_tail_memory_forgotten_traces",
    "decisions removed from memory before tail.late_seconds",
    ["selector"],
)
REFUSED = Counter("neve_tail_memory_refused", "rejected records, by reason", ["selector", "reason"])
LOST = Counter(
    "neve_tail_memory_lost_spans",
    "sampled spans lost because the queue of a destination was full",
    ["selector", "destination"],
)
WAITING = Gauge(
    "neve_tail_memory_waiting_bytes",
    "bytes of sampled spans in the queue of a destination",
    ["selector", "destination"],
)


def count_memory_cycle(result: MemoryCycleResult) -> None:
    """Record the metrics of a finished cycle in memory."""
    HELD.labels(result.selector).set(result.held_bytes)
    EARLY.labels(result.selector).inc(result.early.traces)
    FORGOTTEN.labels(result.selector).inc(result.forgotten)
