"""What otel-arrow's exporter wrote of real telemetry, where it stands beside the clone."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from neve.lake.config import S3Config
from neve.otap.part_reader import infer_part_offsets
from tests.otap.lake.test_read import read_all

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

IDS = re.compile(r"TraceID: ([0-9a-f]{32}) SpanID: ([0-9a-f]{16})")


@pytest.fixture(scope="module")
def files(shared_data: Path) -> dict[str, list[str]]:
    """The files of the one part, by table."""
    base = shared_data / "otap"
    return {table.name: sorted(map(str, table.glob("*/*.parquet"))) for table in sorted(base.iterdir())}


def by_sql(files: dict[str, list[str]], root: str, time: str, what: str, attrs: str) -> Counter[Any]:
    """What SQL over the files says of each row: service, time, a text and the attributes."""
    starts = ", ".join(f"({start})" for start in _starts(files))
    rows = duckdb.sql(
        f"""
        WITH batches(start) AS (VALUES {starts}),
        attributes AS (
            SELECT parent_id, map_from_entries(list((key, coalesce(str, int::VARCHAR, printf('%g', double))))) AS held
            FROM read_parquet({files[attrs]}) GROUP BY parent_id
        ),
        services AS (SELECT parent_id, str AS service FROM read_parquet({files["resource_attrs"]})
                     WHERE key = 'service.name')
        SELECT service, epoch_us({time}), {what}, held
        FROM read_parquet({files[root]}) AS rows ASOF JOIN batches ON rows.id >= batches.start
        LEFT JOIN services ON services.parent_id = batches.start + rows.resource.id
        LEFT JOIN attributes ON attributes.parent_id = rows.id
        """
    ).fetchall()
    return Counter((service, moment, text, _told(held)) for service, moment, text, held in rows)


def by_us(files: dict[str, list[str]], root: str, what: str) -> Counter[Any]:
    """The same of the lake's rows."""
    return Counter(
        (row["service_name"], _micros(row["timestamp"]), row[what], _told(dict(row["attributes"])))
        for row in read_all(files, root)
    )


@pytest.mark.slow
def test_every_log_is_what_sql_says(files: dict[str, list[str]]) -> None:
    """4,974 logs, each with its service, time, body and attributes."""
    found = by_us(files, "logs", "message")
    assert found.total() == 4974
    assert None not in {service for service, *_rest in found}
    assert found == by_sql(files, "logs", "time_unix_nano", "body.str", "log_attrs")


@pytest.mark.slow
def test_every_span_is_what_sql_says(files: dict[str, list[str]]) -> None:
    """14,890 spans, each with its service, time, name and attributes."""
    found = by_us(files, "spans", "operation_name")
    assert found.total() == 14890
    assert None not in {service for service, *_rest in found}
    assert found == by_sql(files, "spans", "start_time_unix_nano", "name", "span_attrs")


@pytest.mark.slow
def test_the_ids_of_logs_are_those_that_their_bodies_name(files: dict[str, list[str]]) -> None:
    """The exporter's footer calls them what they are not: readers that believe it give logs the traces of others."""
    rows = list(read_all(files, "logs"))
    named = [IDS.search(row["message"]) for row in rows]
    found = [(row["trace_id"].hex(), row["span_id"].hex()) for row in rows]
    assert [ids for ids, name in zip(found, named, strict=True) if name] == [name.groups() for name in named if name]
    assert sum(name is not None for name in named) > 4900


@pytest.mark.slow
def test_times_keep_their_nanoseconds(files: dict[str, list[str]]) -> None:
    """The log driver wrote its own time into each body, to the nanosecond."""
    rows = list(read_all(files, "logs"))
    told = [re.search(r'"time":"[^"]*\.(\d{9})Z"', row["message"]) for row in rows]
    pairs = [(row["time_unix_nano"] % 10**9, int(name[1])) for row, name in zip(rows, told, strict=True) if name]
    assert len(pairs) > 3500
    assert all(ours == theirs for ours, theirs in pairs)


def _starts(files: dict[str, list[str]]) -> list[int]:
    offsets = infer_part_offsets(S3Config(), files)
    assert offsets is not None
    return [int(start) for start in offsets.starts]


def _told(attributes: dict[str, str] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((attributes or {}).items()))


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)
