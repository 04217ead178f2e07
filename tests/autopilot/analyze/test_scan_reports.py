"""Iceberg's scan reports: recorded from Iceberg 1.12, and its expressions with their values."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from neve.autopilot.analyzer import analyze
from neve.autopilot.logs.scan_reports import ScanReports, parse_expression
from neve.autopilot.workload.privacy import format_filter
from tests.autopilot.analyze.schemas import DATA, TABLES

if TYPE_CHECKING:
    from pathlib import Path

SINCE = datetime(2020, 1, 1, tzinfo=UTC)


def test_masked_values_leave_the_columns_and_kinds() -> None:
    """Java masks what it reports: patterns know the columns, and no test pretends to know a value."""
    found = analyze([ScanReports(str(DATA / "iceberg_1_12_scan_reports.jsonl"))], TABLES, SINCE)
    kinds = {(one.column, one.kind, one.function, one.queries) for one in found.tables["shop.orders"].patterns}
    assert kinds == {
        ("customer", "eq", "masked", 1),
        ("placed", "range", "masked", 1),
        ("id", "range", "masked", 1),
        ("customer", "in", "masked", 1),
        ("total", "is_null", "", 1),
        ("customer", "other", "", 1),
        ("customer", "range", "masked", 1),
    }
    assert found.tables["shop.orders"].bytes_by_engine == {"iceberg": 21007 + 18896 + 2362 + 21007 + 0 + 21007}
    assert set(found.queries[0].uses[0].columns) == {"id", "customer", "placed", "total", "attributes"}


def test_values_that_are_there_are_typed(tmp_path: Path) -> None:
    """A client that masks nothing gives values in JSON; the table's schema says what they are."""
    expressions = [json.loads(line) for line in (DATA / "iceberg_1_12_expressions.jsonl").read_text().splitlines()]
    reports = [
        {
            "report-type": "scan-report",
            "table-name": "lake.shop.orders",
            "filter": one,
            "received": "2026-01-02T03:04:05Z",
        }
        for one in expressions
    ]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*reports, {"report-type": "commit"}]))
    found = analyze([ScanReports(str(tmp_path))], TABLES, SINCE)
    said = sorted(format_filter(query.uses[0].filter, allow_literals=True) for query in found.queries)
    assert said == sorted(
        [
            "everything",
            "customer = 'c1'",
            "placed >= datetime.datetime(2026, 1, 3, 0, 0, tzinfo=datetime.timezone.utc) AND id < 50",
            "customer IN ('c1', 'c2') OR total IS NULL",
            "customer (something)",
            "customer < 'zed' OR customer > 'zed'",
        ]
    )
    assert found.queries[0].at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_transforms_and_strange_shapes() -> None:
    """A transform around a column can't be turned around; `not` goes down to the tests."""
    bucket = {"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "id"}, "value": 1}
    assert format_filter(parse_expression(bucket)) == "id (something)"  # type: ignore[arg-type]
    inner = {"type": "and", "left": {"type": "lt", "term": "a", "value": 5}, "right": {"type": "is-null", "term": "b"}}
    negated = parse_expression({"type": "not", "child": inner})
    assert negated is not None
    assert format_filter(negated, allow_literals=True) == "a >= 5 OR b IS NOT NULL"
    assert parse_expression({"type": "not", "child": {"type": "and", "left": inner, "right": False}}) is None


def test_a_report_that_is_none_is_counted(tmp_path: Path) -> None:
    """A filter of an unknown shape costs its own line."""
    (tmp_path / "r.jsonl").write_text('{"table-name": "a.b", "filter": {"kind": 1}}\n')
    found = analyze([ScanReports(str(tmp_path))], TABLES, SINCE)
    assert dict(found.sources[0].unreadable) == {"not a scan report": 1}
