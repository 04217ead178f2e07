"""Runs on Spark: killed, repeated, after compaction and after deletes, the index is that of the files there are."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from neve.compact import Compactor
from neve.compact.config import CompactConfig
from neve.compact.plan import Request
from neve.errors import CommitConflict, ConfigError, LeaseTaken
from neve.lake.commit.java_commit import change_rows
from neve.model.tables import SEARCH_INDEX
from neve.search import job
from neve.search.config import SearchConfig
from neve.search.job import SearchIndexer
from neve.search.lookup import SearchIndex
from neve.state.leases import hold_worker_lease
from tests.compact.tables import documents_in, fill_logs
from tests.query.lakes import ACME, OTHER
from tests.search.lakes import put, with_index, words_by_file

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.search.job import IndexStatus

EAGER = CompactConfig(fragments=2, minor_seconds=0, hot_seconds=0, close_seconds=0, delete_files=1, delete_ratio=0.01)
LATER = datetime.now(UTC) + timedelta(days=3000)  # for compaction, to which no partition is young then
WORDS = [f"word{number}" for number in range(60)]


@pytest.fixture
def full(spark_lake: Lake) -> Lake:
    """Logs of two organizations in five files."""
    chance = random.Random(6)
    for owner in (ACME, ACME, ACME, OTHER, OTHER):
        put(spark_lake, [" ".join(chance.choices(WORDS, k=4)) for _ in range(3)], owner)
    return with_index(spark_lake)


def search(lake: Lake, folder: Path, **more: Any) -> SearchIndexer:
    """The job as a new process would make it."""
    return SearchIndexer(lake, more.pop("config", SearchConfig()), documents_in(folder), **more)


def rows(lake: Lake) -> list[dict[str, Any]]:
    """The index, without the time when it was made."""
    found = lake.table(SEARCH_INDEX.name).scan().to_arrow().drop_columns(["built_at"]).to_pylist()
    return sorted(found, key=lambda row: (row["file_path"], row["first_row"]))


def status(lake: Lake, folder: Path) -> IndexStatus:
    """How the index of the logs stands."""
    (found,) = [one for one in search(lake, folder).status() if one.table == "logs"]
    return found


def check(lake: Lake) -> None:
    """The index is about the files that are there, and misses no word of theirs."""
    truth = words_by_file(lake)
    assert {row["file_path"] for row in rows(lake)} == set(truth)
    index = SearchIndex(lake)
    for owner in (ACME, OTHER):
        paths = [path for path in truth if f"={owner}/" in path]
        for word in WORDS:
            found = index.find_rows("logs", owner, paths, (("message", frozenset({word})),))
            assert {path for path in paths if word in truth[path]} <= {path for path in paths if found[path]}


def test_a_run_that_is_killed_before_its_commit_leaves_nothing(
    full: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one makes the same index; the one after it has nothing to do."""

    def dying(*_given: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(job, "change_rows", dying)
        with pytest.raises(KeyboardInterrupt):
            search(full, tmp_path).build()
    assert rows(full) == []
    before = status(full, tmp_path)
    assert (before.files, before.files_indexed, before.share) == (5, 0, 0.0)

    told: list[tuple[str, int, int]] = []
    result = search(full, tmp_path, progress=lambda *said: told.append(said)).build()
    assert (result.committed, result.files_indexed, result.rows, result.reason) == (
        *(True, 5, 15),
        "5 files are not indexed",
    )
    assert told[-1] == ("logs", 2, 2)
    check(full)
    first = rows(full)

    again = search(full, tmp_path).run()
    assert {(one.committed, one.reason) for one in again} == {(False, "every file is indexed")}
    assert rows(full) == first
    after = status(full, tmp_path)
    assert (after.files_indexed, after.files_missing, after.share) == (5, 0, 1.0)
    assert after.index_bytes == result.index_bytes > 0


def test_compaction_makes_other_files(full: Lake, tmp_path: Path) -> None:
    """Rows about those that it replaced go, and the new ones are indexed, in one commit."""
    search(full, tmp_path).build()
    compactor = Compactor(full, documents=documents_in(tmp_path), config=EAGER, clock=lambda: LATER)
    compactor.compact("logs", Request(thorough=True))
    assert status(full, tmp_path).files_gone == 5
    result = search(full, tmp_path).build()
    assert (result.files_indexed, result.index_files_removed) == (2, 2)
    check(full)
    compactor.compact(SEARCH_INDEX.name, Request(thorough=True))
    check(full)
    assert not search(full, tmp_path).build().committed


@pytest.mark.long
def test_rows_of_one_file_that_is_gone(full: Lake, tmp_path: Path) -> None:
    """The index file that has them among others is written anew; rows of others stay as they are."""
    search(full, tmp_path).build()
    put(full, ["onlyhere"])
    search(full, tmp_path).build()
    first = rows(full)
    full.spark.sql(
        f"CALL {full.catalog_config.name}.system.rewrite_data_files(table => 'telemetry.search_index', "
        "options => map('rewrite-all', 'true'))"
    )
    full.spark.sql(f"DELETE FROM {full.spark_name('logs')} WHERE message = 'onlyhere'")
    result = search(full, tmp_path).build()
    assert (result.files_indexed, result.index_files_removed, result.index_files_added) == (0, 1, 1)
    assert result.reason == "1 index file has rows of deleted files"
    kept = set(words_by_file(full))
    assert rows(full) == [row for row in first if row["file_path"] in kept]
    check(full)


def test_when_another_writer_was_quicker_the_index_is_planned_anew(
    full: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is there twice."""
    refused: list[str] = []

    def once_refused(*given: Any, **named: Any) -> Any:
        if not refused:
            refused.append("once")
            raise CommitConflict("another writer was quicker")
        return change_rows(*given, **named)

    monkeypatch.setattr(job, "change_rows", once_refused)
    assert search(full, tmp_path).build().files_indexed == 5
    assert len(rows(full)) == 5
    check(full)


def test_one_run_at_a_time(full: Lake, tmp_path: Path) -> None:
    """A lease keeps others away; who knows that its holder is dead takes it."""
    with hold_worker_lease(documents_in(tmp_path), "search:logs", owner="another", seconds=60):
        with pytest.raises(LeaseTaken):
            search(full, tmp_path).build()
        assert search(full, tmp_path, steal=True).build().files_indexed == 5


def test_another_column_is_added_to_files_that_are_indexed(spark_lake: Lake, tmp_path: Path) -> None:
    """Only what is lacking is made."""
    with_index(spark_lake)
    fill_logs(spark_lake, files=2, rows=3)
    search(spark_lake, tmp_path).build()
    both = SearchConfig(tables={"logs": ("message", "service_name")})
    assert search(spark_lake, tmp_path, config=both).build().ranges == 2
    found = sorted((row["column_name"], row["words"]) for row in rows(spark_lake))
    assert [column for column, _words in found] == ["message", "message", "service_name", "service_name"]
    assert [words for column, words in found if column == "service_name"] == [1, 1]


@pytest.mark.parametrize(
    ("table", "columns", "words"),
    [("metrics", None, "'metrics' has no indexed columns"), ("logs", ("flags",), "no text column 'flags'")],
)
def test_what_has_no_texts_is_refused(
    lake: Lake, tmp_path: Path, table: str, columns: tuple[str, ...] | None, words: str
) -> None:
    """With what could be indexed."""
    with pytest.raises(ConfigError, match=words):
        search(with_index(lake), tmp_path).build(table, columns)
