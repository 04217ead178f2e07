"""What a commit says of its windows is read as said, or as somewhat more."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from neve.model.commits import WINDOWS
from neve.rollup.announced import EVERYONE, MOST_CHARACTERS, SECOND, announce, announced
from neve.rollup.ranges import Ranges

MINUTE = 60 * SECOND
DAY = 1440 * MINUTE


@st.composite
def changes(draw: st.DrawFn, most: int = 8) -> dict[str, Ranges]:
    """Windows of some organizations."""
    window = draw(st.sampled_from((MINUTE, 5 * MINUTE, 60 * MINUTE, DAY)))
    parts = st.lists(st.tuples(st.integers(-100, 500_000), st.integers(1, 50)), min_size=1, max_size=most)
    made = parts.map(lambda found: Ranges.of((start * window, (start + size) * window) for start, size in found))
    return draw(st.dictionaries(st.text(max_size=8).filter(lambda name: name != EVERYONE), made, max_size=4))


@given(changes())
def test_few_words_say_all(changed: dict[str, Ranges]) -> None:
    """As long as it is short, nothing is lost and nothing is added."""
    assert announced(announce(changed)[WINDOWS]) == changed


@given(st.integers(1, 1200), st.sampled_from((2 * MINUTE, DAY, 3 * DAY)), st.integers(1, 3), st.integers(0, 10**6))
@settings(max_examples=60)
def test_many_words_become_fewer_that_say_more(number: int, step: int, owners: int, first: int) -> None:
    """Everybody's windows are still among those that are said to have changed, and none beyond their ends."""
    parts = [(first * MINUTE + place * step, first * MINUTE + place * step + MINUTE) for place in range(number)]
    changed = {f"owner{one}": Ranges.of(parts) for one in range(owners)}
    words = announce(changed)[WINDOWS]
    assert len(words) <= MOST_CHARACTERS
    told = announced(words)
    for owner, ranges in changed.items():
        said = told.get(owner, Ranges()) | told.get(EVERYONE, Ranges())
        assert said | ranges == said
        assert (said.parts[0][0], said.parts[-1][1]) == (ranges.parts[0][0], ranges.parts[-1][1])


def test_gaps_of_a_day_go_first() -> None:
    """Days far apart stay apart as long as that is short enough; then one range must do for everybody."""
    near = [(place * 2 * MINUTE, place * 2 * MINUTE + MINUTE) for place in range(2000)]
    far = (900 * DAY, 901 * DAY)
    assert announced(announce({"a": Ranges.of([*near, far])})[WINDOWS]) == {
        "a": Ranges.of([(0, 1999 * 2 * MINUTE + MINUTE), far])
    }
    apart = Ranges.of((place * 3 * DAY, place * 3 * DAY + DAY) for place in range(2000))
    told = announced(announce({"a": apart, "b": Ranges.of([(-DAY, 0)])})[WINDOWS])
    assert told == {EVERYONE: Ranges.of([(-DAY, apart.parts[-1][1])])}


def test_nothing_is_said_of_nothing() -> None:
    """A commit that changed no window says so, which is not the same as to say nothing."""
    assert announced(announce({})[WINDOWS]) == {}
