"""One contract for all incremental consumers: the same history of a table makes them consume the same."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.lake.calendar import micros_of
from neve.lake.time_ranges import floor
from tests.contracts.consumers import CONSUMERS, MINUTE, OF_ROWS, History
from tests.tail.lakes import START

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contracts.consumers import Windows

pytestmark = pytest.mark.lake

FIRST = floor(micros_of(START), MINUTE)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 3)),
    st.tuples(st.just("append"), st.integers(0, 3)),
    st.tuples(st.sampled_from(("compact", "delete", "roll back")), st.just(0)),
    st.tuples(st.just("expire"), st.integers(0, 3)),
)


def minutes(pending: Windows | None) -> dict[str, set[int]] | None:
    """Windows as minutes after the beginning; organizations without any are left out."""
    if pending is None:
        return None
    return {owner: {(start - FIRST) // MINUTE for start in starts} for owner, starts in pending.items() if starts}


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A table with two minutes of one organization, which all consumers have consumed."""
    found = History.begin(tmp_path)
    found.append(0, 1)
    found.advance()
    return found


@pytest.mark.parametrize("name", CONSUMERS)
def test_all_is_pending_before_the_first_run(name: str, tmp_path: Path) -> None:
    """A consumer without a position consumes everything."""
    history = History.begin(tmp_path)
    history.append(0)
    assert minutes(CONSUMERS[name].pending(history.lake)) in (None, {"acme": {0}})


def test_nothing_is_pending_after_a_run(history: History) -> None:
    """The position that a run stores is the one that the next run reads."""
    assert [minutes(one.pending(history.lake)) for one in CONSUMERS.values()] == [{}] * 4


def test_appends_are_pending_with_their_organizations(history: History) -> None:
    """Late rows of an old minute, rows of a new one, and rows of another organization."""
    history.append(1, 7)
    history.append(3, owner="globex")
    found = [minutes(one.pending(history.lake)) for one in CONSUMERS.values()]
    assert found == [{"acme": {1, 7}, "globex": {3}}] * 4


def test_compaction_changes_no_row(history: History) -> None:
    """Files with the same rows are new to the index alone; rows that came before and after are still found."""
    history.compact()
    for name in OF_ROWS:
        assert minutes(CONSUMERS[name].pending(history.lake)) == {}
    assert minutes(CONSUMERS["search"].pending(history.lake)) == {"acme": {0, 1}}
    history.append(5)
    history.compact()
    for name in OF_ROWS:
        assert minutes(CONSUMERS[name].pending(history.lake)) == {"acme": {5}}


def test_deletes_touch_what_is_computed_from_rows(history: History) -> None:
    """The whole partition of a delete file may have changed; there is nothing new to select or to index."""
    history.delete()
    for name in ("rollup", "reservoir"):
        pending = minutes(CONSUMERS[name].pending(history.lake))
        assert pending is not None
        assert pending["acme"] >= {0, 1}
    for name in ("tail", "search"):
        assert minutes(CONSUMERS[name].pending(history.lake)) == {}


def expire_position(history: History) -> None:
    """The snapshot that was consumed last is gone."""
    history.append(2)
    history.expire(0)


def expire_between(history: History) -> None:
    """A snapshot since then is gone."""
    history.append(2)
    history.append(3)
    history.expire(1)


def roll_back_behind(history: History) -> None:
    """The table is set to a state before the position."""
    history.append(2)
    history.advance()
    history.roll_back()


def roll_back_and_go_on(history: History) -> None:
    """The table has got other rows after that."""
    roll_back_behind(history)
    history.append(4)


@pytest.mark.parametrize("change", [expire_position, expire_between, roll_back_behind, roll_back_and_go_on])
def test_a_gap_makes_all_pending(change: Callable[[History], None], history: History) -> None:
    """Consumers by position consume everything when they can't know what came since; the index compares files."""
    change(history)
    assert [CONSUMERS[name].pending(history.lake) for name in OF_ROWS] == [None] * len(OF_ROWS)
    assert CONSUMERS["search"].pending(history.lake) is not None


def test_the_first_rows_are_not_missed_when_their_snapshot_expired(tmp_path: Path) -> None:
    """A position of an empty table is behind a gap, although no snapshot that is left has a parent."""
    history = History.begin(tmp_path)
    history.advance()
    history.append(0)
    history.append(1)
    assert [minutes(CONSUMERS[name].pending(history.lake)) for name in OF_ROWS] == [{"acme": {0, 1}}] * 3
    history.expire(0)
    assert [CONSUMERS[name].pending(history.lake) for name in OF_ROWS] == [None] * len(OF_ROWS)


@pytest.mark.long
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=3), st.lists(STEPS, min_size=1, max_size=5))
def test_nothing_that_changed_is_missed(before: list[tuple[str, int]], after: list[tuple[str, int]]) -> None:
    """On random histories: what changed is pending, nothing else is after compactions, and all agree about gaps."""
    with tempfile.TemporaryDirectory() as folder:
        history = History.begin(Path(folder))
        history.append(0)
        apply(history, before)
        history.advance()
        position, was = history.line[-1], history.rows()
        apply(history, after)
        now = history.rows()
        changed = {key for key in was.keys() | now.keys() if was.get(key) != now.get(key)}
        added = {key for key in now if now[key] - was.get(key, frozenset())}
        pending = {name: one.pending(history.lake) for name, one in CONSUMERS.items()}
        gap = history.has_gap(position)
        assert {name: pending[name] is None for name in OF_ROWS} == dict.fromkeys(OF_ROWS, gap)
        for name, needed in (("rollup", changed), ("reservoir", changed), ("tail", added), ("search", added)):
            found = pending[name]
            assert found is None or all(start in found.get(owner, ()) for owner, start in needed)
        if not gap and all(step in ("compact", "expire") for step, _number in after):
            assert [minutes(pending[name]) for name in OF_ROWS] == [{}, {}, {}]


def apply(history: History, steps: list[tuple[str, int]]) -> None:
    """Make the changes."""
    for step, number in steps:
        match step:
            case "append":
                history.append(number, owner=("acme", "globex")[number % 2])
            case "compact":
                history.compact()
            case "delete":
                history.delete()
            case "roll back":
                history.roll_back()
            case "expire":
                history.expire(number)
