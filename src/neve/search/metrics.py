"""What indexing says of itself to Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from neve.search.result import BuildResult, IndexStatus

RUNS = Counter(
    "neve_search_runs", "runs that ended, by table and whether there was anything to commit", ["table", "did"]
)
CONFLICTS = Counter("neve_search_conflicts", "commits that another writer's change made necessary again", ["table"])
FILES = Counter("neve_search_files", "data files indexed", ["table"])
ROWS = Counter("neve_search_rows", "rows of indexed data files", ["table"])
WORDS = Counter("neve_search_words", "distinct words of indexed ranges", ["table"])
INDEX_BYTES = Counter("neve_search_index_bytes", "bytes of index files written", ["table"])
SHARE = Gauge("neve_search_share", "share of the table's bytes that is indexed", ["table"])
MISSING = Gauge("neve_search_files_missing", "data files that are not indexed", ["table"])
BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
SECONDS = Histogram("neve_search_seconds", "from looking at the table to the commit", ["table"], buckets=BUCKETS)


def count_run(result: BuildResult) -> None:
    """A run came to its end."""
    table = result.table
    RUNS.labels(table, "commit" if result.committed else "nothing").inc()
    FILES.labels(table).inc(result.files_indexed)
    ROWS.labels(table).inc(result.rows)
    WORDS.labels(table).inc(result.words)
    INDEX_BYTES.labels(table).inc(result.index_bytes)
    SECONDS.labels(table).observe(result.seconds)


def count_status(status: IndexStatus) -> None:
    """An index was looked at."""
    SHARE.labels(status.table).set(status.share)
    MISSING.labels(status.table).set(status.files_missing)
