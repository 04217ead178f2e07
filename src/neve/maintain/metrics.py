"""What maintenance says of itself to Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from neve.maintain.result import StepResult

RUNS = Counter("neve_maintain_runs", "steps that were run", ["step", "table"])
FAILURES = Counter("neve_maintain_failures", "steps that ended in an error", ["step", "table"])
SECONDS = Counter("neve_maintain_seconds", "time that steps took", ["step", "table"])
SNAPSHOTS = Counter("neve_maintain_expired_snapshots", "snapshots that were expired", ["table"])
FILES = Counter("neve_maintain_removed_files", "data and delete files that were removed", ["step", "table"])
ROWS = Counter("neve_maintain_deleted_rows", "rows that were past their time", ["table"])
BYTES = Counter("neve_maintain_freed_bytes", "bytes that were freed, at about", ["step", "table"])
LAST = Gauge("neve_maintain_last_success_timestamp_seconds", "when a step last ended well", ["step", "table"])


def count_step(result: StepResult) -> None:
    """Count a step that was run in earnest."""
    labels, gain = (result.step, result.table), result.outcome.gain
    RUNS.labels(*labels).inc()
    SECONDS.labels(*labels).inc(result.seconds)
    if result.failed:
        FAILURES.labels(*labels).inc()
        return
    FILES.labels(*labels).inc(gain.files + gain.delete_files)
    BYTES.labels(*labels).inc(gain.bytes)
    SNAPSHOTS.labels(result.table).inc(gain.snapshots)
    ROWS.labels(result.table).inc(gain.rows)
    LAST.labels(*labels).set(result.started_at.timestamp() + result.seconds)
