"""Spark's event logs: recorded from sessions of Spark 4.1 with Iceberg 1.12, other events and metrics left out."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import zstandard

from neve.autopilot.analyzer import analyze
from neve.autopilot.logs.spark_log import SparkLog
from neve.autopilot.logs.spark_plan import find_scans
from neve.autopilot.workload.privacy import format_filter
from tests.autopilot.analyze.schemas import DATA, TABLES

if TYPE_CHECKING:
    from pathlib import Path

SINCE = datetime(2020, 1, 1, tzinfo=UTC)


def test_a_plan_tells_what_no_text_tells() -> None:
    """Filters that reached Iceberg, keys of maps that did not, and the bytes of the files; failures are left out."""
    found = analyze([SparkLog(str(DATA / "spark_4_1_plain.jsonl"))], TABLES, SINCE)
    said = [
        (format_filter(use.filter, allow_literals=True), use.bytes_read) for one in found.queries for use in one.uses
    ]
    assert said == [
        ("placed >= datetime.datetime(2026, 1, 5, 0, 0, tzinfo=datetime.timezone.utc) AND customer = 'c1'", 9458),
        ("attributes['http.route'] = '/r1'", 21007),
        ("id >= 10 AND id <= 20 AND customer LIKE 'c1'%", 2356),
        (
            "placed < datetime.datetime(2026, 1, 2, 0, 0, tzinfo=datetime.timezone.utc) OR total > Decimal('10.00')",
            23363,
        ),
    ]
    assert {use.table for one in found.queries for use in one.uses} == {"shop.orders"}
    assert dict(found.sources[0].left_out) == {"failed": 1, "only metadata, or tables of other catalogs": 1}
    assert all(query.seconds and query.seconds > 0 for query in found.queries)


def test_rolling_packed_logs_and_descriptions_that_are_sql(tmp_path: Path) -> None:
    """Parts of a rolling log belong together; where a front end has put the statement there, it is read."""
    lines = (DATA / "spark_4_1_rolling.jsonl").read_bytes().splitlines(keepends=True)
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "appstatus_app-1").touch()
    for number, part in ((2, lines[3:]), (1, lines[:3])):  # the first part ends within an execution
        (folder / f"events_{number}_app-1.zstd").write_bytes(zstandard.compress(b"".join(part)))
    found = analyze([SparkLog(str(tmp_path))], TABLES, SINCE)
    said = [format_filter(use.filter, allow_literals=True) for query in found.queries for use in query.uses]
    day = "datetime.datetime(2026, 1, {}, 0, 0, tzinfo=datetime.timezone.utc)".format
    assert said == [
        f"customer IN ('c1', 'c2') AND date_trunc(placed) >= {day(3)} AND date_trunc(placed) < {day(4)}",
        "everything",  # a text with a quote is written as it is: nobody can say where it ends
        "(id < 5 OR id > 5) AND total >= Decimal('1.50') AND total <= Decimal('20.00') "
        "AND (customer < 'x, y' OR customer > 'x, y')",
        "attributes['http.route'] IN ('/r1', '/r2') AND attributes['a b'] LIKE 'x'%",
        "id IN (5, 10, 14, 1, 6, 9, 13, 2, 12, 7, 3, 16, 11, 8, 4, 15)",
        "everything",
    ]
    assert [query.query_id for query in found.queries][:1] == ["app-1/0"]


def test_a_log_that_is_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """A crash leaves half a file: what is whole counts, and the rest is told."""
    packed = gzip.compress((DATA / "spark_4_1_plain.jsonl").read_bytes())
    (tmp_path / "app.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "old.lz4").write_bytes(b"x")
    found = analyze([SparkLog(str(tmp_path))], TABLES, SINCE)
    assert dict(found.sources[0].unreadable) == {
        "the file is truncated or damaged": 1,
        "lz4 is not supported, expected plain text, gzip or zstd": 1,
    }
    assert 0 < found.counted < 4


def test_a_plan_that_is_no_plan_has_no_scans() -> None:
    """Nodes without the words of an Iceberg scan are passed over."""
    assert find_scans({"simpleString": "BatchScan x", "children": [{"simpleString": "LocalTableScan"}]}) == []
