"""Pauses: what they hold up, for how long, and for whom."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from neve.jobs.job import Task, WorkNotFound
from neve.jobs.pauses import SPACE, Pauses

if TYPE_CHECKING:
    from neve.state.documents import Documents


def test_a_pause_holds_until_it_is_resumed(documents: Documents) -> None:
    """Every process sees it, and sees its end."""
    mine, others = Pauses(documents), Pauses(documents, fresh_seconds=0)
    assert others.find(Task.COMPACT, "logs") is None
    pause = mine.pause(task=Task.COMPACT, tables="metrics*", by="ada", reason="a migration", until=None)
    assert mine.list() == others.list() == [pause]
    assert others.find(Task.COMPACT, "metrics_1m") == pause
    assert others.find(Task.COMPACT, "logs") is None
    assert others.find(Task.ROLLUP, "metrics_1m") is None
    assert others.resume(pause.id) == pause
    assert others.find(Task.COMPACT, "metrics_1m") is None
    assert mine.list() == []


def test_one_pause_may_hold_all_work(documents: Documents) -> None:
    """Of every task and every table."""
    pauses = Pauses(documents)
    pause = pauses.pause(task=None, by="ada", reason="", until=None)
    assert {pauses.find(task, "logs") for task in Task} == {pause}


def test_a_pause_that_is_over_does_not_count(documents: Documents) -> None:
    """Nor can it be resumed; and it is cleared away when the next one comes."""
    pauses, now = Pauses(documents), documents.now()
    over = pauses.pause(task=None, by="ada", reason="", until=now - timedelta(seconds=1))
    assert pauses.find(Task.COMPACT, "logs") is None
    assert pauses.list() == []
    with pytest.raises(WorkNotFound, match=f"there is no pause '{over.id}'"):
        pauses.resume(over.id)
    later = pauses.pause(task=None, by="ada", reason="", until=now + timedelta(hours=1))
    assert pauses.find(Task.COMPACT, "logs") == later
    assert [key for key, _document in documents.entries(SPACE)] == [later.id]


def test_what_another_process_paused_is_seen_in_a_moment(documents: Documents) -> None:
    """The store is not asked for every job that waits."""
    mine, others = Pauses(documents, fresh_seconds=600), Pauses(documents)
    assert mine.find(Task.COMPACT, "logs") is None
    others.pause(task=None, by="ada", reason="", until=None)
    assert mine.find(Task.COMPACT, "logs") is None
    mine.pause(task=Task.SEARCH, by="ada", reason="", until=None)
    assert mine.find(Task.COMPACT, "logs") is not None
