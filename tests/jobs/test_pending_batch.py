"""Boxes: what is gathered in them, and when they are full."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.jobs.batcher import MAX_SEEN, PendingBatch
from neve.jobs.job import Task
from neve.jobs.policy import MB, Batch
from neve.jobs.routing import Announcement
from tests.jobs.support import START

if TYPE_CHECKING:
    from random import Random

NOW_MS = round(START.timestamp() * 1000)
BATCH = Batch(count=12, bytes=256 * MB, age_seconds=60)


def announced(
    snapshot: int, *, files: int = 1, size: int = MB, seconds_ago: float = 0, window: str = "2026-01-31"
) -> Announcement:
    """A commit on the table of logs."""
    at = NOW_MS - round(seconds_ago * 1000)
    return Announcement("logs", snapshot, "ingest-stream", window, 100, files, size, at)


def box_of(*announcements: Announcement) -> PendingBatch:
    """A box with these in it."""
    box = PendingBatch.empty(Task.COMPACT, "logs", "2026-01-31", START)
    for announcement in announcements:
        box = box.add(announcement, START)
    return box


def test_a_box_is_due_for_a_reason() -> None:
    """By the number of files, by their bytes, by the age of the first; the reason says so in words."""
    due = box_of(announced(1, files=6, size=MB, seconds_ago=62), announced(2, files=8, size=2 * MB)).due(BATCH, START)
    assert due == "14 files of 3.15 MB in 62 s: batch.count is 12"
    assert box_of(announced(1, size=300 * MB)).due(BATCH, START) == "1 file of 315 MB in 0 s: batch.bytes is 268 MB"
    assert (
        box_of(announced(1, seconds_ago=60)).due(BATCH, START) == "1 file of 1.05 MB in 60 s: batch.age_seconds is 60"
    )
    assert box_of(announced(1, seconds_ago=59)).due(BATCH, START) is None


@pytest.mark.parametrize("seconds_ago", [-3600, -(10**12)])
def test_a_clock_that_is_ahead_does_not_keep_a_box_open(seconds_ago: float) -> None:
    """A commit of the future counts as one of now."""
    box = box_of(announced(1, seconds_ago=seconds_ago))
    assert box.first_at == START
    assert box.due(BATCH, START + timedelta(seconds=60)) is not None


commits = st.lists(
    st.builds(
        announced,
        st.integers(0, 9),
        files=st.integers(0, 5),
        size=st.integers(0, 2**40),
        seconds_ago=st.integers(0, 10**6),
        window=st.sampled_from(["2026-01-30", "2026-01-31"]),
    ),
    max_size=20,
    unique_by=lambda one: (one.snapshot_id, one.window),
)


@pytest.mark.slow
@given(commits, st.randoms(use_true_random=False))
def test_what_comes_twice_counts_once(announcements: list[Announcement], random: Random) -> None:
    """In whatever order commits come, and however often, a box holds each once; and so does the store's copy of it."""
    twice = [*announcements, *announcements]
    random.shuffle(twice)
    once, box = box_of(*announcements), box_of(*twice)
    assert (box.count, box.bytes, box.records) == (once.count, once.bytes, once.records)
    assert box.count == sum(one.files for one in announcements)
    assert (box.first_at, box.last_at) == (once.first_at, once.last_at)
    assert PendingBatch.of(json.loads(json.dumps(box.document))) == box


def test_a_box_remembers_as_many_as_may_come_again() -> None:
    """What was taken last and not dealt with is known; the memory does not grow."""
    announcements = [announced(number) for number in range(3 * MAX_SEEN)]
    box = box_of(*announcements)
    assert box_of(*announcements, *announcements[-MAX_SEEN:]) == box
    assert (len(box.seen), box.count) == (MAX_SEEN, 3 * MAX_SEEN)
