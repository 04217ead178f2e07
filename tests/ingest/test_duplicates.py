"""Which records are there already."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from neve.ingest.duplicates import Ids, repeated, words_of

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
def test_the_first_of_equal_ids_is_kept(ids: list[tuple[int, int]]) -> None:
    """In the order in which they came."""
    assert repeated(words(ids)).tolist() == [each in ids[:place] for place, each in enumerate(ids)]


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=20), st.data())
def test_ids_are_read_from_any_slice(ids: list[bytes], data: st.DataObject) -> None:
    """A column that begins in the middle of its buffer is read from there."""
    start = data.draw(st.integers(0, len(ids) - 1))
    column = pa.array(ids, pa.binary()).slice(start)
    assert [row.tobytes() for row in words_of(column)] == ids[start:]
