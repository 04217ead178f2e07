"""Stored sizes of log streams: after each run they equal the lines, whatever was appended, rewritten or deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from neve.app.query.logql import open_logs
from neve.logql.engine import LogWindow
from neve.logql.language.parser import parse_selector
from neve.logql.storage.stream_sizes import list_sizes
from neve.query.config import QueryConfig
from neve.query.service import QueryService, no_limits
from neve.series.config import SeriesConfig
from neve.series.job import SeriesIndexer
from tests.compact.tables import documents_in
from tests.logql.otlp_logs import END, GAP, SECOND, START, ingest, make_log_lake, message, record
from tests.query.lakes import ACME, OTHER, fork_lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from neve.lake.lake import Lake
    from neve.logql.storage.log_source import LogReader
    from neve.promql.labels import Labels

ALL = '{service_name=~".+"}'
Sizes = dict[tuple["Labels", int], tuple[int, int]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """A lake with lines."""
    return make_log_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def fork(made: Lake, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], tuple[Lake, SeriesIndexer]]:
    """Return a function that makes a lake to change, with its job."""

    def make() -> tuple[Lake, SeriesIndexer]:
        folder = tmp_path_factory.mktemp("fork")
        lake = fork_lake(made, folder)
        return lake, SeriesIndexer(lake, SeriesConfig(), documents_in(folder))

    return make


def read_sizes(reader: LogReader, window: LogWindow, text: str = ALL, step_ns: int | None = None) -> Sizes:
    """Return the sizes of streams by their labels and steps."""
    found: Sizes = {}
    for one in list_sizes(reader, parse_selector(text), window, step_ns):
        lines, size = found.get((one.labels, one.start_ns), (0, 0))
        found[one.labels, one.start_ns] = lines + one.entries, size + one.bytes
    return found


def compare(lake: Lake, window: LogWindow, text: str = ALL, step_ns: int | None = None) -> Sizes:
    """Return the sizes of a window, which stored minutes and lines give alike."""
    service = QueryService(lake, QueryConfig(cache_bytes=0), limits=no_limits)
    try:
        stored, counted = open_logs(service, ACME), open_logs(service, ACME)
        assert stored.run_sizes is not None
        counted.run_sizes = None
        found = read_sizes(stored, window, text, step_ns)
        assert found == read_sizes(counted, window, text, step_ns)
        return found
    finally:
        service.close()


def test_stored_minutes(fork: Callable[[], tuple[Lake, SeriesIndexer]]) -> None:
    """Windows and steps of any bounds have the sizes of their lines, and whole minutes read no lines at all."""
    lake, series = fork()
    series.update("log_volumes")
    for window in (
        LogWindow(START, END),
        LogWindow(START + 3, END - 7 * SECOND),
        LogWindow(START + GAP, START + GAP + 2),
    ):
        assert compare(lake, window)
        compare(lake, window, '{service_name="pay"}')
        compare(lake, window, '{service_name!="pay", k8s_pod_name=~"cart.*"}')
        compare(lake, window, ALL, 60 * SECOND)
        compare(lake, window, ALL, 7 * SECOND)
    service = QueryService(lake, QueryConfig(cache_bytes=0), limits=no_limits)
    reader = open_logs(service, ACME)
    reader.run = refuse
    assert read_sizes(reader, LogWindow(START, START + 120 * SECOND))
    service.close()


def refuse(*_arguments: object) -> Iterator[pa.RecordBatch]:
    """Refuse to read lines."""
    raise AssertionError("lines were read")


COMMITS = st.lists(
    st.tuples(
        st.sampled_from((ACME, OTHER)),
        st.sampled_from(("cart", "pay", "web")),
        st.lists(st.tuples(st.integers(0, 800), st.text("aé\n", max_size=9)), min_size=1, max_size=4),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@given(COMMITS, st.integers(0, 700 * SECOND), st.integers(1, 7200 * SECOND))
@settings(max_examples=24, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_equality(fork: Callable[[], tuple[Lake, SeriesIndexer]], commits: list[Any], start: int, length: int) -> None:
    """After commits in any order, some of them not counted yet, stored sizes equal those of the lines."""
    lake, series = fork()
    series.update("log_volumes")
    window = LogWindow(START + start, START + start + length)
    for owner, service, lines, is_counted in commits:
        ingest(lake, owner, message(service, [record(index, text) for index, text in lines]))
        if is_counted:
            series.update("log_volumes")
        compare(lake, window)
        compare(lake, LogWindow(START, START + 8000 * SECOND), ALL, 120 * SECOND)


def test_deleted_lines(fork: Callable[[], tuple[Lake, SeriesIndexer]]) -> None:
    """Lines that are deleted are subtracted by the next run."""
    lake, series = fork()
    series.update("log_volumes")
    before = compare(lake, LogWindow(START, END))
    lake.table("logs").delete("service_name = 'pay'")
    assert series.update("log_volumes").committed
    after = compare(lake, LogWindow(START, END))
    assert {dict(labels)["service_name"] for labels, _ in before} == {"cart", "pay"}
    assert {dict(labels)["service_name"] for labels, _ in after} == {"cart"}


def test_rewritten_lines(fork: Callable[[], tuple[Lake, SeriesIndexer]]) -> None:
    """A file that a rewrite made of counted and new lines counts each line once, before and after the next run."""
    lake, series = fork()
    series.update("log_volumes")
    ingest(lake, ACME, message("pay", [record(2, "new"), record(70, "newer")]))
    table = lake.table("logs")
    table.overwrite(table.scan().to_arrow())
    for window in (LogWindow(START, END), LogWindow(START, START + 900 * SECOND)):
        compare(lake, window)
    series.update("log_volumes")
    for window in (LogWindow(START, END), LogWindow(START, START + 900 * SECOND)):
        compare(lake, window)


def test_runs_without_changes(fork: Callable[[], tuple[Lake, SeriesIndexer]]) -> None:
    """A run without new commits writes nothing, and a run reads the minutes of new files alone."""
    lake, series = fork()
    assert series.update("log_volumes").files == 3
    assert not series.update("log_volumes").committed
    ingest(lake, ACME, message("late", [record(2, "late")]))
    result = series.update("log_volumes")
    assert (result.files, result.partitions) == (1, 2)
    rows = lake.table("log_volumes").scan().to_arrow().to_pylist()
    assert all(row["lines"] == sum(one["lines"] for one in row["minutes"]) for row in rows)
    assert {row["organization_id"] for row in rows} == {ACME, OTHER}
