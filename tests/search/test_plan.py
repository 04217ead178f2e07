"""What a run decides: files that lack rows are indexed, rows without a file go, the rest stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.search.plan import IndexFile, LiveFile, pack_tasks, plan_build
from neve.search.tasks import IndexTask, RewriteTask

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask

PATHS = st.sampled_from("abcdefgh")
OWNERS = {"a": "acme", "b": "acme", "c": "globex", "d": None}
COLUMNS = ("message", "event_name")
TEXTS = st.tuples(PATHS, st.sampled_from(COLUMNS))


def live(path: str, **more: Any) -> LiveFile:
    """A data file."""
    return LiveFile(path, OWNERS.get(path, "acme"), 10, 1, **more)


def held(number: int, texts: frozenset[tuple[str, str]], outdated: int = 0) -> IndexFile:
    """An index file."""
    return IndexFile(cast("FileScanTask", f"index {number}"), texts, outdated)


@given(st.frozensets(PATHS), st.lists(st.tuples(st.frozensets(TEXTS), st.integers(0, 1)), max_size=5))
def test_afterwards_every_file_is_indexed_and_nothing_else(
    paths: frozenset[str], index: list[tuple[frozenset[tuple[str, str]], int]]
) -> None:
    """What is kept, thinned and made is what there should be."""
    files = [held(number, texts, outdated) for number, (texts, outdated) in enumerate(index)]
    planned = plan_build([live(path) for path in sorted(paths)], files, COLUMNS)
    thinned = {str(task.file): task.remaining_paths for task in planned.tasks if isinstance(task, RewriteTask)}
    removed = set(map(str, planned.removed))
    result = {
        text
        for one in files
        if str(one.file) not in removed
        for text in one.texts
        if text[0] in thinned.get(str(one.file), {path for path, _column in one.texts})
    }
    made = {
        (path, column)
        for task in planned.tasks
        if isinstance(task, IndexTask)
        for path, columns in task.files
        for column in columns
    }
    could = {path for path in paths if OWNERS.get(path, "acme")}
    assert not made & result
    assert {text for text in made | result if text[0] in could} == {(path, name) for path in could for name in COLUMNS}
    assert {path for path, _column in made | result} <= paths
    assert all(one.outdated == 0 or str(one.file) in removed | thinned.keys() for one in files)
    assert planned.left_out == len(paths - could)


def test_when_all_is_indexed_nothing_is_done() -> None:
    """And the reason says so."""
    planned = plan_build([live("a")], [held(0, frozenset({("a", "message")}))], ("message",))
    assert (planned.reason, planned.tasks, planned.removed) == ("every file is indexed", (), ())


def test_a_file_of_another_format_is_left_out() -> None:
    """It is read by every search."""
    planned = plan_build([live("a", is_parquet=False)], [], ("message",))
    assert (planned.tasks, planned.left_out) == ((), 1)


def test_the_reason_tells_both() -> None:
    """What is missing, and what is gone."""
    planned = plan_build([live("a")], [held(0, frozenset({("z", "message")}))], ("message",))
    assert planned.reason == "1 file is not indexed, 1 index file has rows of deleted files"
    assert planned.paths_to_index == ("a",)


@pytest.mark.slow
@given(st.frozensets(PATHS), st.integers(5, 35))
def test_a_task_is_of_one_organization_and_not_too_large(paths: frozenset[str], most: int) -> None:
    """And every file is in one of them."""
    tasks = pack_tasks(
        [(LiveFile(path, "acme" if path < "d" else "globex", 10, 1), ("message",)) for path in paths], most
    )
    assert sorted(path for task in tasks for path, _columns in task.files) == sorted(paths)
    for task in tasks:
        assert len(task.files) == 1 or 10 * len(task.files) <= most
        assert {path < "d" for path, _columns in task.files} == {task.owner == "acme"}
