"""Which records are there already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from neve.ingest.deduplication import Ids, count_repeats, ids_to_words

if TYPE_CHECKING:
    from random import Random

# Few values, so that halves and whole ids meet again and again.
IDS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40)


def words(ids: list[tuple[int, int]]) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    """Ids as two numbers each."""
    return np.array(ids, dtype=np.uint64).reshape(-1, 2)


@given(known=IDS, asked=IDS)
def test_a_set_knows_whole_ids_only(known: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    """Two ids that share a half are two ids."""
    found = Ids.of(words(known)).contain(words(asked))
    assert found.tolist() == [each in set(known) for each in asked]


@given(IDS)
def test_the_first_of_equal_ids_is_kept_and_counts_the_others(ids: list[tuple[int, int]]) -> None:
    """In the order of the array, if no other is given."""
    expected = [-1 if each in ids[:place] else ids.count(each) - 1 for place, each in enumerate(ids)]
    assert count_repeats(words(ids)).tolist() == expected


@given(IDS, st.randoms(use_true_random=False))
def test_the_first_is_that_which_arrived_first(ids: list[tuple[int, int]], random: Random) -> None:
    """Wherever it is in the array."""
    arrival = list(range(len(ids)))
    random.shuffle(arrival)
    times = np.array([place // 3 for place in arrival], dtype=np.int64)
    found = count_repeats(words(ids), [times, np.array(arrival, dtype=np.int64)])
    firsts = {one: min(place for place, each in zip(arrival, ids, strict=True) if each == one) for one in set(ids)}
    assert [place for place, count in zip(arrival, found, strict=True) if count >= 0] == [
        place for place, each in zip(arrival, ids, strict=True) if firsts[each] == place
    ]


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=20), st.data())
def test_ids_are_read_from_any_slice(ids: list[bytes], data: st.DataObject) -> None:
    """A column that begins in the middle of its buffer is read from there."""
    start = data.draw(st.integers(0, len(ids) - 1))
    column = pa.array(ids, pa.binary()).slice(start)
    assert [row.tobytes() for row in ids_to_words(column)] == ids[start:]
