"""Lines of the lake: pages in order, groups in SQL, conditions that prune."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from neve.app.query.logql import open_logs
from neve.logql.engine import Engine, LogWindow, run_log_query
from neve.logql.follow import begin, poll
from neve.logql.language.parser import parse_selector
from neve.logql.storage import log_source
from neve.logql.storage.conditions import list_inner_words, write_conditions
from neve.logql.storage.stream_catalog import list_streams
from neve.logql.storage.stream_sizes import list_sizes
from neve.query.config import QueryConfig
from neve.query.service import QueryService, no_limits
from neve.series.config import SeriesConfig
from neve.series.job import SeriesIndexer
from tests.compact.tables import documents_in
from tests.logql.otlp_logs import COUNT, END, GAP, START, TRACE, ingest, make_log_lake, message, record
from tests.query.lakes import ACME, fork_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.logql.storage.log_source import LogReader
    from neve.promql.engine import Result

WINDOW = LogWindow(START, END)
METRICS = [
    'sum by (status) (count_over_time({service_name="cart"} | json | __error__="" [1m]))',
    'sum by (status, took) (rate({service_name="cart"} | json | status >= 500 | __error__="" [1m]))',
    'sum by (user) (bytes_over_time({service_name=~".+"} | logfmt | amount > 3 [1m]))',
    'avg_over_time({service_name="pay"} | logfmt | unwrap amount [2m]) by (user, service_name)',
    'sum by (k8s_pod_name, detected_level, http_route, host_name) (count_over_time({service_name=~".+"} [1m]))',
    'sum(count_over_time({service_name=~".+"} | json [1m]))',
    'sum by (verb) (count_over_time({service_name="cart"} | regexp `"method":"(?P<verb>\\\\w+)"` [1m]))',
    'sum by (verb, rest) (count_over_time({service_name="cart"} | pattern `{"method":"<verb>",<rest>` [1m]))',
    'sum by (trace_id, severity_number) (count_over_time({service_name="cart"} != "memory" [5m]))',
    'sum by (x) (count_over_time({service_name="pay"} | logfmt | label_format x=`{{.user}}-{{.msg}}` [1m]))',
    'absent_over_time({service_name="none"}[1m])',
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """The lake with lines."""
    return make_log_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def reader(lake: Lake) -> Iterator[LogReader]:
    """The lines of acme."""
    service = QueryService(lake, QueryConfig(cache_bytes=0), limits=no_limits)
    yield open_logs(service, ACME)
    service.close()


@dataclass
class LineByLine:
    """Source that groups no lines."""

    reader: LogReader
    groups: list[Any] = field(default_factory=list)

    def read_groups(self, *_arguments: object) -> None:
        """Group no lines."""

    def read(self, *arguments: Any) -> Any:
        """Read lines."""
        return self.reader.read(*arguments)


def round_values(result: Result) -> list[tuple[Any, list[tuple[int, float]]]]:
    """Return series with values that don't depend on the order of sums."""
    return [(one.labels, [(at, round(value, 9)) for at, value in one.floats]) for one in result.series]


@pytest.mark.parametrize("text", METRICS)
def test_groups(reader: LogReader, text: str) -> None:
    """Groups that SQL makes give the values that reading line by line gives."""
    fast = Engine(reader).query_range(text, START, END, 60 * 10**9)
    slow = Engine(LineByLine(reader)).query_range(text, START, END, 60 * 10**9)
    assert round_values(fast) == round_values(slow)
    assert fast.series


@pytest.mark.parametrize("is_forward", [True, False])
def test_pages(reader: LogReader, monkeypatch: pytest.MonkeyPatch, is_forward: bool) -> None:
    """Pages of any size give all lines once and in order, also those with equal times."""
    monkeypatch.setattr(log_source, "_PAGE", 3)
    monkeypatch.setattr(log_source, "_GROWTH", 2)
    query = parse_selector('{service_name=~".+"} | line_format "{{.service_name}} {{__line__}}" |= "cart"')
    found = run_log_query(reader, query, LogWindow(START, END, is_forward), 1000)
    assert len(found) == COUNT + 1
    times = [one.time_ns for one in found]
    assert times == sorted(times, reverse=not is_forward)
    few = run_log_query(reader, query, LogWindow(START, END, is_forward), 7)
    assert [one.line for one in few] == [one.line for one in found[:7]]


def test_nanoseconds(reader: LogReader) -> None:
    """Bounds are exact to the nanosecond: the start is included, the end is not."""
    query = parse_selector('{service_name="pay"}')
    one = START + GAP + 1
    assert len(run_log_query(reader, query, LogWindow(one, one + 1), 10)) == 1
    assert run_log_query(reader, query, LogWindow(one + 1, one + GAP), 10) == []


def test_conditions() -> None:
    """Selectors, line filters, inner words and ids become conditions; stages that change lines end them."""
    query = parse_selector(
        f'{{service_name="a"}} |= "out of memory" | trace_id="{TRACE.hex()}" | json | line_format "x" |= "later"'
    )
    sql = write_conditions(query, WINDOW).sql
    assert "service_name = ?" in sql
    assert "has_term(message, ?)" in sql
    assert "trace_id = unhex(?)" in sql
    assert sql.count("contains(") == 1
    assert list_inner_words("out of memory") == {"of"}
    assert list_inner_words("memory") == frozenset()


def test_unknown_labels(reader: LogReader) -> None:
    """A label that streams never have matches as an absent one."""
    assert run_log_query(reader, parse_selector('{service_name="pay", app="x"}'), WINDOW, 5) == []
    assert len(run_log_query(reader, parse_selector('{service_name="pay", app!="x"}'), WINDOW, 5)) == 5


def test_follow(lake: Lake, tmp_path: Path) -> None:
    """A tail finds the lines of each commit once, tells what it left out, and goes on from its state."""
    forked = fork_lake(lake, tmp_path)
    service = QueryService(forked, QueryConfig(cache_bytes=0), limits=no_limits)
    lines, query = open_logs(service, ACME), parse_selector('{service_name="pay"} != "no"')
    found = begin(lines, query, START, END, 2)
    assert [one.line.split()[2] for one in found.entries] == ["amount=18", "amount=19"]
    assert poll(lines, query, found.state, 10).entries == []
    new = [record(50, "first"), record(51, "no"), record(49, "late"), record(52, "last")]
    ingest(forked, ACME, message("pay", new))
    found = poll(lines, query, found.state, 2)
    assert ([one.line for one in found.entries], found.skipped) == (["first", "last"], 1)
    state = type(found.state).from_document(found.state.as_document())
    assert poll(lines, query, state, 2).entries == []
    service.close()


def list_labels(service: QueryService, text: str, window: LogWindow = WINDOW) -> set[tuple[tuple[str, str], ...]]:
    """Return the streams of a selector."""
    return set(list_streams(open_logs(service, ACME), parse_selector(text), window))


def test_stream_table(lake: Lake, tmp_path: Path) -> None:
    """Streams come from their table and from later commits, and are those of the lines themselves."""
    forked = fork_lake(lake, tmp_path)
    service = QueryService(forked, QueryConfig(cache_bytes=0), limits=no_limits)
    selectors = ['{service_name=~".+"}', '{service_name="pay"}', '{k8s_pod_name="pod-1"}', '{service_name="none"}']
    from_lines = [list_labels(service, one) for one in selectors]
    SeriesIndexer(forked, SeriesConfig(), documents_in(tmp_path)).run()
    service.close()
    service = QueryService(forked, QueryConfig(cache_bytes=0), limits=no_limits)
    assert open_logs(service, ACME).run_new is not None
    assert [list_labels(service, one) for one in selectors] == from_lines
    assert list_labels(service, selectors[0], LogWindow(START - 10**15, START - 9 * 10**14)) == set()
    ingest(forked, ACME, message("late", [record(3, "x")]))
    assert list_labels(service, selectors[0]) == from_lines[0] | {(("service_name", "late"),)}
    service.close()


@pytest.mark.parametrize("is_forward", [True, False])
def test_slices(reader: LogReader, monkeypatch: pytest.MonkeyPatch, is_forward: bool) -> None:
    """Parts of a time range give the lines of the whole range, once and in order."""
    window = LogWindow(START - 10**9, END + 7, is_forward)
    for text in ('{service_name="cart"}', '{service_name=~".+"} | json | status >= 500'):
        query = parse_selector(text)
        whole = run_log_query(reader, query, window, 1000)
        monkeypatch.setattr(log_source, "_MIN_SLICED_NS", 1)
        for limit in (1, 3, 1000):
            found = run_log_query(reader, query, window, limit)
            assert [(one.time_ns, one.line) for one in found] == [(one.time_ns, one.line) for one in whole[:limit]]
        monkeypatch.undo()


def test_sizes(reader: LogReader) -> None:
    """Sizes of streams are the lines and bytes of their streams."""
    query = parse_selector('{service_name=~".+"}')
    lines = run_log_query(reader, query, WINDOW, 1000)
    found = list(list_sizes(reader, query, WINDOW))
    assert sum(one.entries for one in found) == len(lines)
    assert sum(one.bytes for one in found) == sum(len(one.line.encode()) for one in lines)
    steps = list(list_sizes(reader, query, WINDOW, 30 * 10**9))
    assert sum(one.bytes for one in steps) == sum(one.bytes for one in found)
    assert len({one.start_ns for one in steps}) > 1


@pytest.mark.parametrize("step_s", [7, 60, 90])
def test_buckets(reader: LogReader, step_s: int) -> None:
    """Lines that SQL counts by intervals give the values of single lines, for any step and offset."""
    for text in (
        'sum by (status) (count_over_time({service_name="cart"} | json | __error__="" [70s] offset 13s))',
        'sum by (service_name) (bytes_rate({service_name=~".+"}[1m]))',
    ):
        fast = Engine(reader).query_range(text, START + 3, END, step_s * 10**9)
        slow = Engine(LineByLine(reader)).query_range(text, START + 3, END, step_s * 10**9)
        assert round_values(fast) == round_values(slow)
        assert fast.series
