"""The parts of the race that decide: a check that can't fail would prove nothing."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.race.changes import Append, Clear, Delete, Merge, Overwrite, Update, new_ids
from tests.race.deaths import Death, Point, draw_deaths
from tests.race.draws import KINDS, draw_append, draw_change
from tests.race.outcome import Outcome
from tests.race.race import plan_rounds
from tests.race.rows import Rows, row_of
from tests.race.verdict import judge

SEEDS = st.integers(0, 2**32)


def some_rows(count: int = 12) -> Rows:
    """Rows of the first version."""
    return {number: row_of(number, 1) for number in range(count)}


def test_equal_rows_are_good_in_any_order() -> None:
    """And only they."""
    rows = list(some_rows().values())
    assert judge("spark", rows, reversed(rows)).good


def test_a_loss_a_double_and_an_older_version_are_found() -> None:
    """Also where the number of rows is right."""
    rows = some_rows(4)
    found = [rows[0], rows[0], rows[2], row_of(3, 0)]
    verdict = judge("pyiceberg", rows.values(), found)
    assert not verdict.good
    assert verdict.missing == (rows[1], rows[3])
    assert verdict.extra == (rows[0], row_of(3, 0))
    assert "2 missing: Row(id=1" in str(verdict)


def test_each_change_does_what_it_says() -> None:
    """To the rows that it names, and to no others."""
    rows = some_rows()
    assert Append((row_of(50, 2),)).apply(rows) == rows | {50: row_of(50, 2)}
    assert Delete((0, 5)).apply(rows).keys() == rows.keys() - {0, 5}
    assert Clear(1).apply(rows).keys() == rows.keys() - {1, 9}
    assert Update((3,), 2, 0).apply(rows) == rows | {3: row_of(3, 2, 0)}
    assert Overwrite(2, (row_of(50, 2, 2),)).apply(rows).keys() == (rows.keys() - {2, 10}) | {50}
    merged = Merge((row_of(1, 2), row_of(50, 2)), (2,)).apply(rows)
    assert merged == {key: row for key, row in rows.items() if key != 2} | {1: row_of(1, 2), 50: row_of(50, 2)}


@given(SEEDS)
def test_a_drawn_change_can_be_done_again(seed: int) -> None:
    """Done twice it leaves what it left the first time, which is why an unknown outcome costs nothing."""
    rng, rows = random.Random(seed), some_rows(40)
    for version in range(2, 8):
        change = draw_change(rows, version, max(rows, default=-1) + 1, rng)
        once = change.apply(rows)
        assert change.apply(once) == once
        assert all(row.version == version for key, row in once.items() if rows.get(key) != row)
        rows = once


@given(SEEDS)
def test_new_rows_get_new_ids(seed: int) -> None:
    """Also where a partition is overwritten or rows are merged."""
    rng, rows = random.Random(seed), some_rows()
    change = draw_change(rows, 2, 1000, rng)
    assert new_ids(change) != 1000
    assert all(row.id in rows or row.id >= 1000 for row in getattr(change, "rows", ()))
    assert draw_append(2, 7, rng).rows[0].id == 7


def test_every_kind_of_change_is_drawn() -> None:
    """In a race that is long enough."""
    rng = random.Random(1)
    drawn = {type(draw_change(some_rows(), 2, 100, rng)) for _ in range(400)}
    assert drawn == set(KINDS)


def test_deaths_repeat_with_their_seed_and_come_at_every_point() -> None:
    """A race of fifty rounds is killed at each point twice, and at any time between."""
    deaths = draw_deaths(50, random.Random(1))
    assert deaths == draw_deaths(50, random.Random(1))
    at = [death.point for death in deaths]
    assert all(at.count(point) >= 2 for point in Point)
    assert at.count(None) >= 8


def test_a_death_is_told_to_a_child_and_understood() -> None:
    """Through its environment."""
    for death in draw_deaths(50, random.Random(2)):
        assert death.point is None or Death.of(death.words) == death


def test_one_that_stalls_has_another_that_takes_over() -> None:
    """And that lives for longer than the first one sleeps."""
    rounds = plan_rounds([Death(Point.STALLED, 1, 1.0), Death(Point.WRITTEN, 1)] * 10, random.Random(1))
    assert [len(one.deaths) for one in rounds[::2]] == [2] * 10
    assert {len(one.deaths) for one in rounds} == {1, 2}


def test_a_race_without_a_round_or_with_a_trouble_is_bad() -> None:
    """And says so first."""
    assert not Outcome().good
    assert Outcome(rounds=1).good
    bad = Outcome(rounds=1, troubles=["a row is gone"])
    assert not bad.good
    assert str(bad).startswith("trouble: a row is gone\nBAD")
