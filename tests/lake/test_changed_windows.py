"""What a commit says of its windows is read as said, or as somewhat more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.lake.read.incremental import EVERYONE, MAX_CHARACTERS, SECOND, format_changed_windows, parse_changed_windows
from neve.lake.time_ranges import Ranges
from neve.model.commits import WINDOWS

MINUTE = 60 * SECOND
DAY = 1440 * MINUTE


@st.composite
def changes(draw: st.DrawFn, most: int = 8) -> dict[str, Ranges]:
    """Windows of some organizations."""
    window = draw(st.sampled_from((MINUTE, 5 * MINUTE, 60 * MINUTE, DAY)))
    parts = st.lists(st.tuples(st.integers(-100, 500_000), st.integers(1, 50)), min_size=1, max_size=most)
    made = parts.map(lambda found: Ranges.of((start * window, (start + size) * window) for start, size in found))
    return draw(st.dictionaries(st.text(max_size=8).filter(lambda name: name != EVERYONE), made, max_size=4))


@pytest.mark.slow
@given(changes())
def test_few_words_say_all(changed: dict[str, Ranges]) -> None:
    """As long as it is short, nothing is lost and nothing is added."""
    assert parse_changed_windows(format_changed_windows(changed)[WINDOWS]) == changed


@given(st.integers(1, 1200), st.sampled_from((2 * MINUTE, DAY, 3 * DAY)), st.integers(1, 3), st.integers(0, 10**6))
@settings(max_examples=60)
def test_many_words_become_fewer_that_say_more(number: int, step: int, owners: int, first: int) -> None:
    """Everybody's windows are still among those that are said to have changed, and none beyond their ends."""
    parts = [(first * MINUTE + place * step, first * MINUTE + place * step + MINUTE) for place in range(number)]
    changed = {f"owner{one}": Ranges.of(parts) for one in range(owners)}
    words = format_changed_windows(changed)[WINDOWS]
    assert len(words) <= MAX_CHARACTERS
    told = parse_changed_windows(words)
    for owner, ranges in changed.items():
        said = told.get(owner, Ranges()) | told.get(EVERYONE, Ranges())
        assert said | ranges == said
        assert (said.parts[0][0], said.parts[-1][1]) == (ranges.parts[0][0], ranges.parts[-1][1])


def test_gaps_of_a_day_go_first() -> None:
    """Days far apart stay apart as long as that is short enough; then each organization has one range, or all do."""
    near = [(place * 2 * MINUTE, place * 2 * MINUTE + MINUTE) for place in range(2000)]
    far = (900 * DAY, 901 * DAY)
    assert parse_changed_windows(format_changed_windows({"a": Ranges.of([*near, far])})[WINDOWS]) == {
        "a": Ranges.of([(0, 1999 * 2 * MINUTE + MINUTE), far])
    }
    apart = Ranges.of((place * 3 * DAY, place * 3 * DAY + DAY) for place in range(2000))
    told = parse_changed_windows(format_changed_windows({"a": apart, "b": Ranges.of([(-DAY, 0)])})[WINDOWS])
    assert told == {"a": Ranges.of([(0, apart.parts[-1][1])]), "b": Ranges.of([(-DAY, 0)])}
    many = {f"organization-{number}": Ranges.of([(number * DAY, number * DAY + DAY)]) for number in range(1000)}
    assert parse_changed_windows(format_changed_windows(many)[WINDOWS]) == {EVERYONE: Ranges.of([(0, 1000 * DAY)])}


def test_nothing_is_said_of_nothing() -> None:
    """A commit that changed no window says so, which is not the same as to say nothing."""
    assert parse_changed_windows(format_changed_windows({})[WINDOWS]) == {}
