"""Queries between commits in a worker: the answers of a query that keeps nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from neve.api.prometheus.routes import FUNCTION, TABLES
from neve.app.query.promql import add_tables
from neve.errors import QueryError
from neve.lake.commit.append import append_once
from neve.lake.read.snapshot_files import iterate_data_files
from neve.lake.write.table_writer import Target, write_files
from neve.query.config import QueryConfig
from neve.query.engine.program import Program
from neve.query.engine.worker_pool import WorkerPool
from neve.query.request import Request
from neve.query.service import Ports, QueryService, no_limits
from neve.query.table_versions import find_version_sequence, list_grown_versions, table_version
from tests.promql.storage.otlp_metrics import COUNT, GAP_MS, START_MS, make_metric_lake
from tests.query.lakes import ACME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.lake.lake import Lake

pytestmark = pytest.mark.slow

CONFIG = QueryConfig(threads=1, cache_bytes=0, spark_bytes=0, memory_limit="500MB")
QUERIES = ["{__name__=~'.+'}", "sum by (path) (rate(http_requests_total[5m]))", "count({path='a'})", "{new='yes'}"]
SPAN_MS = COUNT * GAP_MS


@pytest.fixture
def lake(tmp_path: Path, iceberg: None) -> Lake:
    """A lake with metrics of all types."""
    return make_metric_lake(tmp_path)


@pytest.fixture
def services(lake: Lake) -> Iterator[tuple[QueryService, QueryService]]:
    """A service with one worker, and one that keeps nothing."""
    warm = QueryService(lake, CONFIG, limits=no_limits, ports=Ports(engine=WorkerPool(lake, CONFIG)))
    cold = QueryService(lake, CONFIG, limits=no_limits)
    yield warm, cold
    warm.close()
    cold.close()


def ask(service: QueryService, query: str) -> tuple[Any, int]:
    """Return the series of a range query, and the bytes of files that it read."""
    times = {"start": START_MS // 1000, "end": (START_MS + 3 * SPAN_MS) // 1000, "step": 60}
    pairs = [("query", query), *((name, str(value)) for name, value in times.items())]
    arguments = {"path": "query_range", "pairs": pairs, "now_ms": 0, "seconds": None, "max_rows": None}
    program = add_tables(service, Program(FUNCTION, {**arguments, "reads_ahead": True}, TABLES))
    running = service.start_program(Request(query, ACME), program)
    body = b"".join(piece for batch in running.batches() for piece in batch.column("body").to_pylist())
    return json.loads(body)["data"]["result"], running.statistics.bytes


def commit_later(lake: Lake, number: int) -> None:
    """Commit the points of the first commit again, some time later, and one series more."""
    table = lake.table("metrics")
    rows = table.scan().to_arrow().filter(pc.field("time_unix_nano") < (START_MS + SPAN_MS) * 10**6)
    columns = {name: rows.column(name) for name in rows.column_names}
    shift = number * SPAN_MS * 1000
    columns["timestamp"] = pc.add(columns["timestamp"].cast(pa.int64()), shift).cast(
        rows.schema.field("timestamp").type
    )
    for name in ("time_unix_nano", "start_time_unix_nano"):
        columns[name] = pc.add(columns[name], shift * 1000)
    columns["value"] = pc.add(columns["value"], float(number))
    columns["record_id"] = pa.array([np.random.default_rng([number, one]).bytes(16) for one in range(len(rows))])
    later = pa.table({name: columns[name].cast(rows.schema.field(name).type) for name in rows.column_names})
    append_once(table, write_files(Target.of(table), later), batch_id=f"later {number}", operation="test")


def test_answers(lake: Lake, services: tuple[QueryService, QueryService]) -> None:
    """After each commit, answers are those of a query that keeps nothing, and a selector reads new files alone."""
    warm, cold = services
    for number in (1, 2):
        for query in QUERIES:
            assert ask(warm, query)[0] == ask(cold, query)[0]
        commit_later(lake, number)
        assert ask(warm, QUERIES[1])[1] < ask(cold, QUERIES[1])[1]
        for query in QUERIES:
            assert ask(warm, query)[0] == ask(cold, query)[0]


def test_removed_files(lake: Lake, services: tuple[QueryService, QueryService]) -> None:
    """After files were removed, their samples are in no answer."""
    warm, cold = services
    commit_later(lake, 1)
    table = lake.table("metrics")
    before = table_version(table)
    assert len(ask(warm, QUERIES[1])[0]) > 0
    removed = list(iterate_data_files(table))[-1:]
    append_once(table, [], batch_id="remove", operation="test", removed=lambda _: removed)
    table = lake.table("metrics")
    assert list_grown_versions(table) == []
    with pytest.raises(QueryError, match="has lost rows"):
        find_version_sequence(table, before)
    for query in QUERIES:
        assert ask(warm, query)[0] == ask(cold, query)[0]


def test_grown_versions(lake: Lake) -> None:
    """A table that was appended to has grown from its earlier versions, whose files have lower numbers."""
    versions = [table_version(lake.table("metrics"))]
    for number in (1, 2):
        commit_later(lake, number)
        versions.append(table_version(lake.table("metrics")))
    for table in (lake.table("metrics"), lake.table_metadata("metrics")):
        assert list_grown_versions(table)[:2] == [versions[1], versions[0]]
        numbers = [find_version_sequence(table, one) for one in versions]
        assert numbers == sorted(set(numbers))
