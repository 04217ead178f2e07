"""Look-ups: no file that holds the words is ever left out, and a lake without an index is read without one."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from neve.app.query.service import SearchIndexFilter
from neve.model.tables import SEARCH_INDEX
from neve.query.config import QueryConfig
from neve.query.planning import file_planner
from neve.query.planning.file_planner import FilePlanner
from neve.query.request import Request
from neve.query.service import Ports, QueryService, no_limits
from neve.search import lookup
from neve.search.config import SearchConfig
from neve.search.lookup import FilterCache, RangeFilter, SearchIndex
from tests.query.lakes import ACME, OTHER
from tests.search.lakes import index_here, put, put_span, with_index, words_by_file

if TYPE_CHECKING:
    from neve.lake.lake import Lake

VOCABULARY = [f"word{number}" for number in range(300)]


@pytest.fixture
def indexed(lake: Lake) -> Lake:
    """Logs of two organizations, in several files, all indexed."""
    with_index(lake)
    chance = random.Random(3)
    for number in range(6):
        put(lake, [" ".join(chance.choices(VOCABULARY, k=5)) for _ in range(4)], OTHER if number == 5 else ACME)
    index_here(lake)
    return lake


def asked(*words: str, column: str = "message") -> lookup.Tokens:
    """Words that all must be in a column."""
    return ((column, frozenset(words)),)


def test_every_file_that_holds_the_words_is_found(indexed: Lake) -> None:
    """A scan knows which; few others are."""
    index, truth = SearchIndex(indexed), words_by_file(indexed)
    mine = [path for path in truth if ACME in path]
    chance = random.Random(4)
    claimed = 0
    for _ in range(200):
        words = frozenset(chance.choices(VOCABULARY, k=chance.choice([1, 1, 2])))
        found = index.find_rows("logs", ACME, mine, (("message", words),))
        holding = {path for path in mine if words <= truth[path]}
        assert {path for path, spans in found.items() if spans} >= holding
        assert all(found[path] == ((0, 4),) for path in holding)
        claimed += sum(spans != () for spans in found.values()) - len(holding)
    assert claimed < 0.05 * 200 * len(mine)


def test_a_file_that_is_not_indexed_must_be_read(indexed: Lake) -> None:
    """Until it is; what was absent is asked for again when the index has changed."""
    index = SearchIndex(indexed)
    put(indexed, ["brand new"])
    new = next(path for path, words in words_by_file(indexed).items() if "brand" in words)
    assert index.find_rows("logs", ACME, [new], asked("brand")) == {new: None}
    assert index.find_rows("logs", ACME, [new], asked("brand")) == {new: None}
    index_here(indexed)
    assert index.find_rows("logs", ACME, [new], asked("brand")) == {new: ((0, 1),)}
    assert index.find_rows("logs", ACME, [new], asked("old")) == {new: ()}


def test_another_organization_finds_nothing(indexed: Lake) -> None:
    """Filters are of one organization."""
    theirs = [path for path in words_by_file(indexed) if OTHER in path]
    assert SearchIndex(indexed).find_rows("logs", ACME, theirs, asked("word1")) == dict.fromkeys(theirs)


def test_columns_that_are_not_indexed_rule_nothing_out(indexed: Lake) -> None:
    """Alone they tell nothing; beside an indexed one they don't matter."""
    index = SearchIndex(indexed)
    paths = [path for path in words_by_file(indexed) if ACME in path]
    other = asked("x", column="event_name")
    assert set(index.find_rows("logs", ACME, paths, other).values()) == {None}
    assert index.find_rows("logs", ACME, paths, (*asked("nowhere"), *other)) == dict.fromkeys(paths, ())
    assert set(index.find_rows("logs", ACME, paths, ()).values()) == {None}


def test_filters_are_read_once(indexed: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look-up finds them in memory; a memory that is too small only costs time."""
    index, small = SearchIndex(indexed), SearchIndex(indexed, most_bytes=10)
    paths = [path for path in words_by_file(indexed) if ACME in path]
    first = index.find_rows("logs", ACME, paths, asked("word7"))
    assert small.find_rows("logs", ACME, paths, asked("word7")) == first
    assert small.find_rows("logs", ACME, paths, asked("word7")) == first
    monkeypatch.setattr(lookup, "_read_rows", lambda *_given: pytest.fail("read again"))
    assert index.find_rows("logs", ACME, paths, asked("word7")) == first


def test_many_paths_are_asked_for_by_their_range(indexed: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same answer."""
    paths = [path for path in words_by_file(indexed) if ACME in path]
    named = SearchIndex(indexed).find_rows("logs", ACME, paths, asked("word7"))
    monkeypatch.setattr(lookup, "MAX_NAMED_PATHS", 1)
    assert SearchIndex(indexed).find_rows("logs", ACME, paths, asked("word7")) == named


def test_threads_get_the_same_answers(indexed: Lake) -> None:
    """From one index."""
    index, truth = SearchIndex(indexed, most_bytes=400), words_by_file(indexed)
    paths = [path for path in truth if ACME in path]
    expected = [SearchIndex(indexed).find_rows("logs", ACME, paths, asked(word)) for word in VOCABULARY[:30]]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda word: index.find_rows("logs", ACME, paths, asked(word)), VOCABULARY[:30]))
    assert found == expected


def test_a_lake_without_an_index_is_no_error(lake: Lake) -> None:
    """It is said once, and every file is read."""
    with_index(lake)
    lake.catalog.drop_table(("telemetry", SEARCH_INDEX.name))
    index = SearchIndex(lake)
    with capture_logs() as said:
        assert index.find_rows("logs", ACME, ["a", "b"], asked("word")) == {"a": None, "b": None}
        assert index.find_rows("logs", ACME, ["a"], asked("word")) == {"a": None}
    assert len(said) == 1


def test_an_empty_index_has_nothing(lake: Lake) -> None:
    """And says nothing about it."""
    with_index(lake)
    with capture_logs() as said:
        assert SearchIndex(lake).find_rows("logs", ACME, ["a"], asked("word")) == {"a": None}
    assert said == []


def test_a_broken_index_is_no_error(indexed: Lake) -> None:
    """A file of it that is gone makes the others worth no less than reading."""
    table = indexed.table(SEARCH_INDEX.name)
    for task in table.scan().plan_files():
        table.io.delete(task.file.file_path)
    paths = [path for path in words_by_file(indexed) if ACME in path]
    with capture_logs() as said:
        assert SearchIndex(indexed).find_rows("logs", ACME, paths, asked("word1")) == dict.fromkeys(paths)
    assert len(said) == 1


def test_the_least_recently_used_filters_are_forgotten() -> None:
    """What is kept never takes more than it may."""
    memory = FilterCache(25)
    for name in ("a", "b"):
        memory.store((name, "message"), (RangeFilter(0, 1, bytes(10)),))
    assert memory.get(("a", "message"))
    memory.store(("c", "message"), (RangeFilter(0, 1, bytes(10)),))
    assert [bool(memory.get((name, "message"))) for name in "abc"] == [True, False, True]
    memory.store(("d", "message"), (RangeFilter(0, 1, bytes(30)),))
    assert memory.get(("d", "message")) is None
    assert memory.bytes == 0


def test_ids(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace is found by its id in few of the files, also in those that the index has not seen."""
    monkeypatch.setattr(file_planner, "READ_AT_ONCE", 0)
    with_index(lake)
    ids = [bytes([number]) * 16 for number in range(1, 30)]
    for number, one in enumerate(ids, 1):
        put_span(lake, one, number)
    index_here(lake, table="spans", columns=("trace_id",))
    put_span(lake, ids[3], 99)
    planner = FilePlanner(SearchIndexFilter(lambda: SearchIndex(lake), SearchConfig()))
    service = QueryService(lake, QueryConfig(), limits=no_limits, ports=Ports(planner=planner))
    for one, spans in ((ids[0], 1), (ids[3], 2), (b"\x77" * 16, 0)):
        sql = f"SELECT count(*) AS spans FROM spans WHERE trace_id = unhex('{one.hex()}')"
        running = service.start(Request(sql, ACME))
        assert [row["spans"] for batch in running.batches() for row in batch.to_pylist()] == [spans]
        assert running.statistics.scans[0].files <= 4
    service.close()
