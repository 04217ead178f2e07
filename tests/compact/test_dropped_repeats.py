"""Duplicates that compaction removes are counted on the span that stays, which is the one that arrived first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from neve.compact.execution.spark_rewriter import deduplicate_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLY, LATE = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
SCHEMA = "record_id binary, ingested_at timestamp, arrival_order bigint, dropped_repeats bigint, name string"


def test_the_first_span_stays_and_counts_the_others(spark: SparkSession) -> None:
    """Repeats that were counted before are kept in the count; a span without duplicates stays as it is."""
    rows = [
        (b"a", LATE, 3, 1, "third"),
        (b"a", EARLY, 9, None, "second"),
        (b"a", EARLY, 2, 2, "first"),
        (b"b", LATE, 1, None, "alone"),
        (b"c", LATE, 1, 4, "counted"),
        (None, LATE, None, None, "no id"),
    ]
    kept = deduplicate_rows(spark.createDataFrame(rows, SCHEMA)).collect()
    assert {row["name"]: row["dropped_repeats"] for row in kept} == {
        "first": 5,
        "alone": None,
        "counted": 4,
        "no id": None,
    }
