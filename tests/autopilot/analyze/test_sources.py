"""Which logs a configuration names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from neve.autopilot.config import ClickHouseConfig, KafkaEventsConfig, LogsConfig, TrinoConfig
from neve.autopilot.logs.neve_log import NeveLog
from neve.autopilot.logs.records import UnreadableRecord, list_log_files, read_documents
from neve.autopilot.workload_scan import build_sources

if TYPE_CHECKING:
    from pathlib import Path

OWN = NeveLog(lambda _: iter(()), "neve")


def test_the_coordinator_is_asked_only_where_there_are_no_events() -> None:
    """It forgets soon and counts no bytes."""
    alone = LogsConfig(trino=TrinoConfig(host="h"))
    files = LogsConfig(trino=TrinoConfig(host="h", events=("a", "b")))
    topic = LogsConfig(trino=TrinoConfig(host="h", kafka=KafkaEventsConfig(bootstrap_servers="k:9092")))
    assert [one.name for one in build_sources(alone)] == ["trino h:8080"]
    assert [one.name for one in build_sources(files)] == ["trino events a", "trino events b"]
    assert [one.name for one in build_sources(topic)] == ["trino events of topic trino-query-completed"]


def test_every_log_that_is_named_is_read() -> None:
    """Without any setting it is the lake's own table alone, and that can be switched off."""
    config = LogsConfig(clickhouse=ClickHouseConfig(host="c"), spark=("s",), scan_reports=("r",))
    assert [one.name for one in build_sources(config, OWN)] == [
        *("clickhouse c:9000", "spark event logs s", "scan reports r", "neve neve.queries"),
    ]
    assert [one.name for one in build_sources(LogsConfig(), OWN)] == ["neve neve.queries"]
    assert build_sources(LogsConfig(neve=False), OWN) == []


def test_settings_have_bounds() -> None:
    """A mistake is told at the start."""
    with pytest.raises(ValidationError):
        LogsConfig(lookback_days=0)
    with pytest.raises(ValidationError):
        LogsConfig.model_validate({"trino": {"hosts": "x"}})


def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path) -> None:
    """What comes behind it is read."""
    path = tmp_path / "long.jsonl"
    path.write_bytes(b'{"a": "' + b"x" * (17 * 1024 * 1024) + b'"}\n{"b": 1}\n')
    found = [document for _, document in read_documents(path)]
    assert found == [UnreadableRecord("longer than 16 MB", "long.jsonl:1"), {"b": 1}]


def test_hidden_files_are_no_logs(tmp_path: Path) -> None:
    """Checksums and files that are being written have names that begin with a dot."""
    for name in (".a.crc", "_tmp", "a.jsonl"):
        (tmp_path / name).touch()
    assert [file.name for file in list_log_files(str(tmp_path), datetime(2020, 1, 1, tzinfo=UTC))] == ["a.jsonl"]
