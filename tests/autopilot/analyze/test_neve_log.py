"""Neve's own table of queries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.autopilot.analyzer import analyze
from neve.autopilot.logs.neve_log import COLUMNS, NeveLog
from neve.autopilot.workload.privacy import format_filter
from neve.autopilot.workload.tables import Tables
from neve.lake.tables import iceberg_schema
from neve.model.query_log import PAGE_NOTE, QUERIES
from neve.model.tables import SPANS

if TYPE_CHECKING:
    from collections.abc import Iterator

SINCE = datetime(2026, 1, 1, tzinfo=UTC)


def _row(number: int, sql: str, **more: Any) -> dict[str, Any]:
    scans = [{"table": "spans", "bytes": 100 + number, "files": 1, "pruned_files": 0, "pruned_bytes": 0}]
    return {
        "organization_id": "acme",
        "timestamp": datetime(2026, 1, 2, number, tzinfo=UTC),
        "query_id": f"{number:032x}",
        "sql": sql,
        "scans": scans,
        "bytes": 100 + number,
        "seconds": 0.5,
        "cache": "miss",
        "rollup": "",
        "state": "done",
        **more,
    }


def test_the_organization_is_a_condition_that_no_text_has() -> None:
    """Each query is over one organization's rows; what came from the cache or a rollup says nothing of a layout."""
    route = "SELECT name FROM spans WHERE attributes['http.route'] = '/cart'"
    rows = [
        _row(1, route),
        _row(2, route, cache="hit"),
        _row(3, route, rollup="metrics_1m"),
        _row(4, route, state="failed"),
        _row(5, "SELECT 'cut … (cut: it has 200,000 bytes)"),
        _row(6, route, timestamp=datetime(2025, 1, 1, tzinfo=UTC)),
        _row(7, "sum(rate(http_requests_total[5m]))", normalised=""),
        _row(8, route, notes=[PAGE_NOTE]),
    ]

    def reader(_: datetime) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_pylist(rows, schema=QUERIES.schema).select(list(COLUMNS))
        yield from table.to_batches(max_chunksize=2)

    tables = Tables({"neve.spans": iceberg_schema(SPANS)})
    found = analyze([NeveLog(reader, "neve")], tables, SINCE)
    [query] = found.queries
    assert [(use.table, use.bytes_read) for use in query.uses] == [("neve.spans", 101)]
    said = format_filter(query.uses[0].filter, allow_literals=True)
    assert said == "organization_id = 'acme' AND attributes['http.route'] = '/cart'"
    assert dict(found.sources[0].left_out) == {
        "answered from the cache": 1,
        "answered from a rollup": 1,
        "failed": 1,
        "in another language than SQL": 1,
        PAGE_NOTE: 1,
    }
    assert [one.reason for one in found.unparsed] == ["unterminated string or quoted name"]


def test_programs_are_known_by_their_scans() -> None:
    """A query in another language than SQL has the predicates and bytes of its scans, by table."""
    predicate = "service_name = 'cart' AND timestamp >= TIMESTAMP '2026-01-01 00:00:00+00'"
    scans = [
        {"table": "spans", "bytes": size, "files": 1, "pruned_files": 0, "pruned_bytes": 0, "predicate": predicate}
        for size in (30, 12)
    ]
    row = _row(1, 'sum(rate(requests_total{job="cart"}[5m]))', normalised="", scans=scans)

    def reader(_: datetime) -> Iterator[pa.RecordBatch]:
        yield from pa.Table.from_pylist([row], schema=QUERIES.schema).select(list(COLUMNS)).to_batches()

    found = analyze([NeveLog(reader, "neve")], Tables({"neve.spans": iceberg_schema(SPANS)}), SINCE)
    assert not found.unparsed
    [query] = found.queries
    [use] = query.uses
    assert (use.table, use.bytes_read) == ("neve.spans", 42)
    said = format_filter(use.filter, allow_literals=True)
    assert "organization_id = 'acme'" in said
    assert "service_name = 'cart'" in said
