"""Search with trace summaries: the same traces as without them, from fewer spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from neve.app.query.traceql import open_spans
from neve.model.signals import Signal
from neve.query.config import QueryConfig
from neve.query.service import QueryService, no_limits
from neve.traceql import search as search_module
from neve.traceql.language.parser import parse
from neve.traceql.search import search
from neve.traceql.storage.span_reader import SpanReader, Window
from neve.traceql.storage.trace_index import narrow_traces
from neve.traces.config import TracesConfig
from neve.traces.job import TraceAssembler
from tests.compact.tables import documents_in
from tests.explore.traces import make_span, make_trace_lake, pack_spans
from tests.query.lakes import ACME, NOW, put
from tests.traces.test_service_map import make_calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MINUTE_NS = 60 * 10**9
RANGE = Window(NOW - 10 * MINUTE_NS, NOW + 3 * 60 * MINUTE_NS)
QUERIES = (
    "{ }",
    "{ status = error }",
    '{ resource.service.name = "cart" && duration > 50ms }',
    '{ rootServiceName = "shop" } | count() > 1',
    '{ resource.service.name = "shop" } > { status = error }',
    '{ resource.service.name = "web" } || { name = "late" }',
    '{ resource.service.name = "nobody" }',
    "{ nestedSetParent < 0 }",
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[QueryService]:
    """Two hours of calls, and a span that the summaries have not seen."""
    yield from open_calls(tmp_path_factory.mktemp("lake"), is_late=True)


@pytest.fixture(scope="module")
def current(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[QueryService]:
    """The same without that span."""
    yield from open_calls(tmp_path_factory.mktemp("lake"), is_late=False)


def open_calls(folder: Path, *, is_late: bool) -> Iterator[QueryService]:
    """Yield a service over two hours of calls."""
    lake = make_trace_lake(folder)
    put(lake, ACME, Signal.TRACES, pack_spans(make_calls(120)), batch="calls")
    TraceAssembler(lake, TracesConfig(threads=1), documents_in(folder)).run()
    late = make_span(9, 2, (3).to_bytes(16, "big"), start=121 * 60_000, stop=121 * 60_000 + 5, name="late", status=2)
    if is_late:
        put(lake, ACME, Signal.TRACES, pack_spans({"cart": [late]}), batch="late")
    made = QueryService(lake, QueryConfig(), limits=no_limits)
    yield made
    made.close()


def find(reader: SpanReader, query: str, limit: int) -> list[Any]:
    """Return the answer of a search."""
    return [(one.trace_id, one.spansets, one.summary) for one in search(reader, parse(query), RANGE, limit, 3)]


@pytest.mark.parametrize("limit", [1, 4, 500])
def test_same_traces(service: QueryService, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Summaries change no answer, whatever is asked and however many traces are wanted."""
    monkeypatch.setattr(search_module, "FIRST_PAGE", 2)
    for query in QUERIES:
        reader = open_spans(service, ACME)
        assert reader.has_summaries
        plain = SpanReader(reader.run)
        assert find(reader, query, limit) == find(plain, query, limit), query


def test_few_spans_are_read(current: QueryService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for the newest traces reads the end of its range alone."""
    monkeypatch.setattr(search_module, "FIRST_PAGE", 2)
    reader, starts = open_spans(current, ACME), []
    run = reader.run

    def record(sql: str, parameters: Any, window: Any) -> Any:
        if "FROM spans" in sql:
            starts.append(window[0].timestamp() * 1e9)
        return run(sql, parameters, window)

    reader.run = record
    find(reader, '{ resource.service.name = "cart" }', 1)
    assert min(starts) > RANGE.start_ns + 120 * MINUTE_NS


def test_conditions() -> None:
    """Equalities that a trace with a result must fulfil narrow the traces, and nothing else does."""
    texts = [narrow_traces(parse(query).root) for query in QUERIES]  # type: ignore[arg-type]
    has_service = "len(list_filter(services, s -> s.service_name = ?)) > 0"
    assert [None if one is None else one.text for one in texts] == [
        None,
        "error_count > 0",
        has_service,
        "root_service_name = ?",
        f"({has_service} AND error_count > 0)",
        None,
        has_service,
        None,
    ]
