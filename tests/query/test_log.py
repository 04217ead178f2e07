"""The query log: every entry once, nobody waits, and what is lost is counted."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import CommitUnknown, QueryError, TableMissing
from neve.lake.commit import append as commits
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.model.query_log import QUERIES
from neve.query import query_log as module
from neve.query.config import QueryConfig
from neve.query.metrics import LOG_ENTRIES
from neve.query.query_log import MAX_TEXT_BYTES, QueryLog, to_rows, truncate_text
from neve.query.request import QueryLogEntry, Request, ScanStatistics, Statistics
from neve.query.service import QueryService
from tests.empty_tables import create_empty_tables
from tests.query.lakes import settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def entry(number: int, organization: str = "acme", **changes: Any) -> QueryLogEntry:
    """An entry that is told from others by its id."""
    said = {"id": f"{number:032x}", "organization": organization, "key_id": "k", "sql": "SELECT 1"}
    return QueryLogEntry(**{**said, "started": NOW + timedelta(seconds=number), **changes})


def new_lake(folder: Path) -> Lake:
    """A lake with no table."""
    said = settings_of(folder)
    return Lake(LakeConfig.model_validate(said["lake"]), CatalogConfig.model_validate(said["catalog"]))


@pytest.fixture
def lake(tmp_path: Path, iceberg: None) -> Lake:
    """A lake with the table of queries."""
    made = new_lake(tmp_path)
    create_empty_tables(made, (QUERIES,))
    return made


def written(lake: Lake) -> pa.Table:
    """All that the table holds."""
    return lake.table(QUERIES.name).scan().to_arrow().sort_by("timestamp")


def numbers(lake: Lake) -> list[int]:
    """Which entries the table holds."""
    return [int(text, 16) for text in written(lake)["query_id"].to_pylist()]


def snapshots(lake: Lake) -> int:
    """How many commits there were."""
    return len(lake.table(QUERIES.name).metadata.snapshots)


def counted(outcome: str) -> float:
    """How many entries became what."""
    return float(LOG_ENTRIES.labels(outcome)._value.get())


@pytest.fixture
def lost() -> Callable[[], float]:
    """How many entries were dropped since the test began."""
    before = counted("dropped")
    return lambda: counted("dropped") - before


def until(reached: Callable[[], Any], seconds: float = 600) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_entry_becomes_a_row(lake: Lake) -> None:
    """With all that is known of the query."""
    scan = ScanStatistics("spans", 2**62, 3, 300, 7, 700, "a > 1")
    statistics = Statistics((scan, scan), "duckdb", "miss", "metrics_1m", 5, 0.1, 0.5, True, True, ("why",))
    queries = QueryLog(lake)
    queries(entry(1, normalised="n", tables=("spans",), state="failed", error="e", limit="rows", statistics=statistics))
    queries.close()
    [row] = written(lake).to_pylist()
    assert set(row) == {column.name for column in QUERIES.columns}
    assert row["scans"] == 2 * [vars(scan)]
    expected = {
        "organization_id": "acme",
        "timestamp": NOW + timedelta(seconds=1),
        "tables": ["spans"],
        "files": 6,
        "bytes": 600,
        "pruned_files": 14,
        "pruned_bytes": 1400,
        "rows": 5,
        "state": "failed",
        "error": "e",
        "limit_name": "rows",
        "engine": "duckdb",
        "cache": "miss",
        "rollup": "metrics_1m",
        "partial": True,
        "truncated": True,
        "notes": ["why"],
    }
    assert {name: row[name] for name in expected} == expected


def test_close_writes_the_rest_in_one_commit(lake: Lake) -> None:
    """Of all organizations, in the order of their times; nothing asked is nothing committed."""
    queries = QueryLog(lake, seconds=3600)
    for number in (3, 1, 2):
        queries(entry(number, f"org{number % 2}"))
    assert snapshots(lake) == 0
    queries.close()
    assert (numbers(lake), snapshots(lake)) == ([1, 2, 3], 1)
    QueryLog(lake).close()
    assert snapshots(lake) == 1


def test_entries_gather_for_a_while(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit each time that something waits, and none where nothing does."""
    queries = QueryLog(lake, seconds=0.3)
    with monkeypatch.context() as held:  # nothing is written before all are there
        held.setattr(queries, "_take_waiting", list)
        for number in range(20):
            queries(entry(number))
    until(lambda: snapshots(lake))
    time.sleep(1)
    assert (numbers(lake), snapshots(lake)) == (list(range(20)), 1)
    queries(entry(20))
    queries.close()
    assert (numbers(lake), snapshots(lake)) == (list(range(21)), 2)


def test_threads_lose_nothing(lake: Lake, lost: Callable[[], float]) -> None:
    """However many write at the same time, and while the log writes."""
    queries = QueryLog(lake, seconds=0.01)

    def ask(first: int) -> None:
        for number in range(first, first + 50):
            queries(entry(number))
            time.sleep(0.002)

    threads = [threading.Thread(target=ask, args=(50 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queries.close()
    assert numbers(lake) == list(range(200))
    assert lost() == 0


def test_two_servers_write_to_one_table(lake: Lake, tmp_path: Path) -> None:
    """Their commits meet, and neither loses an entry."""
    logs = [QueryLog(lake, seconds=0.05), QueryLog(new_lake(tmp_path), seconds=0.05)]
    for number in range(30):
        logs[number % 2](entry(number))
        time.sleep(0.02)
    for one in logs:
        one.close()
    assert numbers(lake) == list(range(30))


@pytest.mark.lake
def test_a_lake_that_comes_back_gets_everything(tmp_path: Path, lost: Callable[[], float]) -> None:
    """Whoever asks does not wait meanwhile: all entries are taken while there is no table."""
    away = new_lake(tmp_path)
    queries = QueryLog(away, seconds=0.01)
    for number in range(10):
        queries(entry(number))
    create_empty_tables(new_lake(tmp_path), (QUERIES,))
    queries(entry(10))
    queries.close()
    assert numbers(new_lake(tmp_path)) == list(range(11))
    assert lost() == 0


def test_what_is_lost_is_counted(tmp_path: Path, lost: Callable[[], float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound at once, and the rest when the lake is still away at the end."""
    monkeypatch.setattr(module, "LAST_SECONDS", 0.3)
    queries = QueryLog(new_lake(tmp_path), seconds=3600, most=5)
    for number in range(8):
        queries(entry(number))
    assert lost() == 3
    queries.close()
    assert lost() == 8
    queries(entry(9))
    assert lost() == 9


def test_long_statements_do_not_fill_the_memory(
    lake: Lake, lost: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a bound on their bytes too; what was written makes room."""
    monkeypatch.setattr(module, "MAX_QUEUED_BYTES", 1000)
    queries = QueryLog(lake, seconds=0.05)
    queries(entry(1, sql="x" * 900))
    queries(entry(2, sql="x" * 900))
    assert lost() == 1
    until(lambda: snapshots(lake))
    queries(entry(3, sql="x" * 900))
    queries.close()
    assert numbers(lake) == [1, 3]


def test_a_commit_that_nobody_knows_of_is_not_made_twice(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It happened, but its answer was lost: the next attempt finds it."""
    append, calls = commits.append_once, []

    def lossy(*arguments: Any, **named: Any) -> Any:
        calls.append(named["batch_id"])
        append(*arguments, **named)
        if len(calls) == 1:
            raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(module, "append_once", lossy)
    queries = QueryLog(lake, seconds=3600)
    queries(entry(1))
    queries.close()
    assert (numbers(lake), snapshots(lake)) == ([1], 1)
    assert len(calls) == 2
    assert len(set(calls)) == 1


def test_files_are_written_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that has to be tried again leaves no files behind that nobody knows."""
    append, failures = commits.append_once, iter([TableMissing("away"), OSError("away"), None])

    def failing(*arguments: Any, **named: Any) -> Any:
        problem = next(failures)
        if problem is not None:
            raise problem
        return append(*arguments, **named)

    monkeypatch.setattr(module, "append_once", failing)
    queries = QueryLog(lake, seconds=0.01)
    queries(entry(1))
    until(lambda: snapshots(lake))
    queries.close()
    folder = lake.table(QUERIES.name).metadata.location.removeprefix("file://")
    assert numbers(lake) == [1]
    assert len(list(Path(folder).rglob("*.parquet"))) == 1


def test_a_log_that_starts_anew_adds_to_the_table(lake: Lake) -> None:
    """What a server wrote before it stopped stays."""
    for number in range(3):
        queries = QueryLog(lake)
        queries(entry(number))
        queries.close()
    assert numbers(lake) == [0, 1, 2]


def asked(service: QueryService, request: Request) -> list[dict[str, Any]]:
    """The rows of an answer."""
    return [row for batch in service.start(request).batches() for row in batch.to_pylist()]


def test_an_organization_sees_its_own_queries(lake: Lake) -> None:
    """By SQL, as it sees every table; its question is in the log when it was answered."""
    queries = QueryLog(lake, seconds=3600)
    service = QueryService(lake, QueryConfig(cache_bytes=0), log=queries)
    for organization, sql in [("acme", "SELECT 1 AS one"), ("other", "SELECT 2 AS two")]:
        asked(service, Request(sql, organization, key_id="k"))
    with pytest.raises(QueryError):
        service.start(Request("SELECT nothing", "acme"))
    queries.close()
    sql = "SELECT sql, state, key_id FROM queries ORDER BY timestamp"
    found = {name: asked(service, Request(sql, name)) for name in ("acme", "other", "nobody")}
    service.close()
    assert [(row["sql"], row["state"], row["key_id"]) for row in found["acme"]] == [
        ("SELECT 1 AS one", "done", "k"),
        ("SELECT nothing", "failed", ""),
    ]
    assert [row["sql"] for row in found["other"]] == ["SELECT 2 AS two"]
    assert found["nobody"] == []


def test_a_long_statement_is_cut(lake: Lake) -> None:
    """And says so."""
    queries = QueryLog(lake)
    queries(entry(1, sql="é" * 100_000, normalised="x" * 300_000))
    queries.close()
    [row] = written(lake).to_pylist()
    assert row["sql"] == "é" * 50_000 + " … (cut: it has 200,000 bytes)"
    assert row["normalised"].endswith(" … (cut: it has 300,000 bytes)")


@given(st.text(st.characters(exclude_categories=())))
def test_every_text_can_be_stored(text: str) -> None:
    """Half characters too; what is a text stays as it is."""
    stored = to_rows([entry(1, sql=text, error=text)]).to_pylist()[0]
    assert stored["sql"] == stored["error"] == text.encode("utf-8", "replace").decode()


@given(st.integers(-5, 5), st.sampled_from("xé€😀"))
def test_text_is_cut_between_characters(more: int, letter: str) -> None:
    """What fits stays as it is; of the rest as many characters are kept as fit."""
    size = len(letter.encode())
    text = letter * (MAX_TEXT_BYTES // size + more)
    kept, _, note = truncate_text(text).partition(" … ")
    assert kept == text[: MAX_TEXT_BYTES // size]
    assert bool(note) == (more > 0)
