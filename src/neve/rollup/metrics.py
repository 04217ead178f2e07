"""What rollups say of themselves to Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from neve.rollup.result import LevelResult

RUNS = Counter(
    "neve_rollup_runs", "runs that ended, by level and whether there was anything to commit", ["level", "did"]
)
CONFLICTS = Counter("neve_rollup_conflicts", "commits that another writer's change made necessary again", ["level"])
SOURCE_ROWS = Counter("neve_rollup_source_rows", "points, or rows of the level below, of computed windows", ["level"])
ROWS = Counter("neve_rollup_rows", "rows written", ["level"])
WINDOWS = Counter("neve_rollup_windows", "windows computed, each organization's counted", ["level"])
LEFT = Counter("neve_rollup_left_windows", "windows left as they are, as retention took their points", ["level"])
WITHOUT_VALUE = Counter("neve_rollup_points_without_value", "points that tell no value", ["level"])
UNKNOWN = Counter("neve_rollup_points_of_unknown_worth", "cumulative points with nothing to compare", ["level"])
DUPLICATES = Counter("neve_rollup_duplicates", "points that came more than once and count once", ["level"])
LAG = Gauge("neve_rollup_lag_seconds", "how long ago the last final window ended; 0: nothing waits", ["level"])
BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
SECONDS = Histogram("neve_rollup_seconds", "from looking at the source to the commit", ["level"], buckets=BUCKETS)


def count_run(result: LevelResult) -> None:
    """A level's turn came to its end."""
    level = result.level
    RUNS.labels(level, "commit" if result.committed else "nothing").inc()
    SOURCE_ROWS.labels(level).inc(result.source_rows)
    ROWS.labels(level).inc(result.rows)
    WINDOWS.labels(level).inc(result.windows)
    LEFT.labels(level).inc(result.left_windows)
    WITHOUT_VALUE.labels(level).inc(result.without_value)
    UNKNOWN.labels(level).inc(result.unknown)
    DUPLICATES.labels(level).inc(result.duplicates)
    SECONDS.labels(level).observe(result.seconds)
