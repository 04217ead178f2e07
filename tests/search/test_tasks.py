"""Tasks in this process: index files without what is gone, and rows of another form made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.model.tables import SEARCH_INDEX
from neve.search import lookup, plan, tasks
from neve.search.lookup import SearchIndex
from neve.search.plan import live_files, load_index_files, plan_build
from neve.search.tasks import RewriteTask
from tests.query.lakes import ACME
from tests.search.lakes import assignment_of, index_here, put, with_index

if TYPE_CHECKING:
    import pytest

    from neve.lake.lake import Lake


def index_rows(lake: Lake) -> list[dict[str, Any]]:
    """What the index has."""
    rows: list[dict[str, Any]] = lake.table(SEARCH_INDEX.name).scan().to_arrow().to_pylist()
    return rows


def test_a_thinned_file_has_the_rows_that_stay(lake: Lake) -> None:
    """As they were, with the time when they were made."""
    with_index(lake)
    for message in ("one", "two", "three"):
        put(lake, [message])
    index_here(lake)
    before = sorted(index_rows(lake), key=lambda row: str(row["file_path"]))
    (held,) = load_index_files(lake.table(SEARCH_INDEX.name), "logs")
    kept = frozenset(row["file_path"] for row in before[:2])
    done = assignment_of(lake)(RewriteTask(held.file, kept))
    index = lake.table(SEARCH_INDEX.name)
    index.delete()
    index.add_files([str(file["file-path"]) for file in done.added])
    assert sorted(index_rows(lake), key=lambda row: str(row["file_path"])) == before[:2]


def test_rows_of_another_form_are_made_anew(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then nothing is told by them, and none of them stays."""
    with_index(lake)
    put(lake, ["one"])
    index_here(lake)
    for module in (plan, tasks, lookup):
        monkeypatch.setattr(module, "FORM", 2)
    (path,) = (file.path for file in live_files(lake.table("logs")))
    absent = (("message", frozenset({"absent"})),)
    assert SearchIndex(lake).find_rows("logs", ACME, [path], absent) == {path: None}
    held = load_index_files(lake.table(SEARCH_INDEX.name), "logs")
    planned = plan_build(live_files(lake.table("logs")), held, ("message",))
    assert (planned.paths_to_index, len(planned.removed)) == ((path,), 1)
    index_here(lake)
    assert SearchIndex(lake).find_rows("logs", ACME, [path], absent) == {path: ()}
    assert sorted(row["form"] for row in index_rows(lake)) == [1, 2]


def test_a_file_without_texts_is_indexed_too(lake: Lake) -> None:
    """Else it would be tried again for ever."""
    with_index(lake)
    put(lake, ["- - -"])
    (done,) = index_here(lake)
    assert (done.files, done.left_out, done.words) == (1, 0, 0)
    assert index_here(lake) == []
