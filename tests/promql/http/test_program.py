"""The program of workers: budgets by memory, deadlines, and bodies in pieces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from neve.errors import InvalidExpression, LimitExceeded
from neve.promql.http.program import answer
from neve.query.config import QueryConfig
from neve.query.engine.program import ProgramContext
from neve.query.request import Request, TimeRange
from neve.query.service import QueryService, no_limits
from tests.promql.storage.otlp_metrics import COUNT, GAP_MS, START_MS, make_metric_lake
from tests.query.lakes import ACME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.query.engine.program import StatementRequest

END = (START_MS + (COUNT - 1) * GAP_MS) // 1000
ALL = "count(count_over_time({__name__=~'.+'}[1h]))"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[QueryService]:
    """The service over a lake with metrics of all types."""
    made = QueryService(make_metric_lake(tmp_path_factory.mktemp("lake")), QueryConfig(), limits=no_limits)
    yield made
    made.close()


def run(service: QueryService, memory_bytes: int = 10**9, check: Callable[[], None] = lambda: None, **more: Any) -> Any:
    """Answer a query in this process."""

    def read(wanted: StatementRequest) -> pa.RecordBatchReader:
        bounds = TimeRange(wanted.since, wanted.until)
        request = Request(
            wanted.sql, ACME, parameters=wanted.parameters, time=bounds, only_new_files=wanted.only_new_files
        )
        running = service.start(request)
        return pa.RecordBatchReader.from_batches(running.schema, running.batches())

    pairs = [(name, str(more[name])) for name in ("query", "time", "stats") if name in more]
    arguments = {"path": "query", "pairs": pairs, "now_ms": END * 1000, "seconds": None, "max_rows": None}
    arguments |= {"has_series_table": True, "has_recorded": False, "has_service_edges": False}
    arguments |= {name: more[name] for name in ("seconds", "max_rows") if name in more}
    batches = list(answer(arguments, ProgramContext(read, memory_bytes, check)))
    return json.loads(b"".join(piece for batch in batches for piece in batch.column("body").to_pylist()))


def test_answer(service: QueryService) -> None:
    """The rows of the result are the body of the response."""
    document = run(service, query=ALL)
    assert document["status"] == "success"
    assert int(document["data"]["result"][0]["value"][1]) > 10


@pytest.mark.parametrize("memory_bytes", [5000, 20_000, 100_000])
def test_budget(service: QueryService, memory_bytes: int) -> None:
    """A small memory allows few points, rows and bytes of statements."""
    with pytest.raises(LimitExceeded, match="too many samples"):
        run(service, memory_bytes, query=ALL)


def test_deadline(service: QueryService) -> None:
    """The timeout ends the request before its next statement."""
    with pytest.raises(LimitExceeded, match="timed out"):
        run(service, query=ALL, seconds=0.0)


def test_rows(service: QueryService) -> None:
    """The limit of rows counts series, before any of them is sent."""
    with pytest.raises(LimitExceeded, match="more than 1 series"):
        run(service, query="http_requests_total", max_rows=1)
    assert run(service, query="http_requests_total", max_rows=2)["status"] == "success"


def test_interrupt(service: QueryService) -> None:
    """An interrupt ends the request before its next statement."""

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        run(service, check=stop, query=ALL)


def test_malformed(service: QueryService) -> None:
    """A malformed expression is the caller's error."""
    with pytest.raises(InvalidExpression, match="parse error"):
        run(service, query="sum(")


def test_statistics(service: QueryService) -> None:
    """`stats=all` adds counts of samples by step and times; another value leaves out the steps, none leaves out all."""
    every = run(service, query="sum(http_requests_total)", stats="all")["data"]["stats"]
    assert every["samples"]["totalQueryableSamplesPerStep"] == [[END, 2]]
    assert every["samples"]["totalQueryableSamples"] == 2
    assert every["samples"]["peakSamples"] > 0
    assert every["timings"]["execTotalTime"] > 0
    some = run(service, query="1", stats="true")["data"]["stats"]
    assert some["samples"]["totalQueryableSamples"] == 0
    assert "totalQueryableSamplesPerStep" not in some["samples"]
    assert "stats" not in run(service, query="1")["data"]
