"""Where commits are announced, and which work they ask for."""

from __future__ import annotations

import pytest

from neve.jobs.job import Task
from neve.jobs.routing import Announcement, find_requested_jobs, list_topics, topic_for
from neve.model.levels import LEVELS

DAY = "2026-01-31"
TABLES = ["logs", "metrics", "spans", "quarantine", *(level.table for level in LEVELS)]


def asked(operation: str, table: str, files: int = 1) -> list[tuple[Task, str, str]]:
    """What a commit asks for."""
    return find_requested_jobs(Announcement(table, 1, operation, DAY, 10, files, 1000, 0))


@pytest.mark.parametrize(
    ("operation", "table", "topic"),
    [
        ("ingest-stream", "logs", "ingest.logs"),
        ("ingest-files", "metrics", "ingest.metrics"),
        ("ingest-otap", "spans", "ingest.traces"),
        ("ingest-stream", "quarantine", "other.quarantine"),
        ("compact", "spans", "compact.spans"),
        ("rollup", "metrics_1m", "rollup.metrics.1m"),
        ("rollup", "metrics_1d", "rollup.metrics.1d"),
        ("retention", "logs", "other.logs"),
        ("", "metrics", "other.metrics"),
    ],
)
def test_a_commit_has_a_topic(operation: str, table: str, topic: str) -> None:
    """It says who made it and what it is about; and whoever reads all topics reads that one."""
    assert topic_for(operation, table) == topic
    assert topic in list_topics(TABLES)


def test_all_topics_are_told_once() -> None:
    """No topic is read twice."""
    topics = list_topics(TABLES)
    assert len(topics) == len(set(topics)) == 3 + 4 + 2 * len(TABLES)


def test_the_chain_from_ingestion_to_days() -> None:
    """Points ask for minutes, minutes for five minutes, those for hours, hours for days, and days for nothing more."""
    table, chain = "metrics", []
    while rollups := [one for one in asked("rollup", table) if one[0] is Task.ROLLUP]:
        [(_task, table, window)] = rollups
        assert window == ""
        chain.append(table)
    assert chain == ["metrics_1m", "metrics_5m", "metrics_1h", "metrics_1d"]


def test_what_was_added_is_to_be_compacted() -> None:
    """In its own window; a commit that added nothing leaves nothing to compact."""
    assert asked("ingest-stream", "spans") == [(Task.COMPACT, "spans", DAY), (Task.TRACES, "trace_summaries", "")]
    assert asked("", "logs") == [
        (Task.COMPACT, "logs", DAY),
        (Task.SEARCH, "logs", ""),
        (Task.SERIES, "log_streams", ""),
        (Task.SERIES, "log_volumes", ""),
    ]
    assert asked("", "metrics", files=0) == [(Task.ROLLUP, "metrics_1m", ""), (Task.SERIES, "metric_series", "")]


@pytest.mark.parametrize("operation", ["compact", "retention", "deletes", "carry-positions", "autopilot"])
def test_tending_asks_for_nothing(operation: str) -> None:
    """Or the work would never end."""
    assert [asked(operation, table) for table in TABLES] == [[]] * len(TABLES)
