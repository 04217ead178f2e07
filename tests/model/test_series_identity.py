"""Names of series: the same for the same attributes in any order, and others for others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.model.columns import STRING_MAP
from neve.model.series_identity import Entries, hash_names, mix_bits, number_hashes, text_hashes

texts = st.text(max_size=4)
maps = st.dictionaries(texts, texts | st.none(), max_size=4)
Pairs = list[tuple[str, str | None]] | None


def column(rows: list[Pairs]) -> pa.MapArray:
    """Maps as a table has them."""
    return pa.array(rows, STRING_MAP)


def names(rows: pa.MapArray) -> list[tuple[int, ...]]:
    """A name for each map."""
    return [tuple(name) for name in hash_names([Entries.of(rows).hashes]).tolist()]


@pytest.mark.slow
@given(st.lists(maps, min_size=1, max_size=6), st.data())
def test_order_is_no_matter(rows: list[dict[str, str | None]], data: st.DataObject) -> None:
    """Nor is the row that a map is in, nor what lies around it in the same column."""
    shuffled: list[Pairs] = [data.draw(st.permutations(list(row.items()))) for row in rows]
    expected = names(column([list(row.items()) for row in rows]))
    assert names(column(shuffled)) == expected
    assert [names(column([row]))[0] for row in shuffled] == expected
    start = data.draw(st.integers(0, len(rows)))
    assert names(column(shuffled)[start:]) == expected[start:]


@given(st.lists(maps, min_size=2, max_size=8))
def test_other_attributes_have_other_names(rows: list[dict[str, str | None]]) -> None:
    """Equal names are those of equal maps; also where key and value, or two maps' values, change places."""
    found = names(column([list(row.items()) for row in rows]))
    for one, name in zip(rows, found, strict=True):
        assert [other == one for other in rows] == [other == name for other in found]


def test_what_looks_alike_is_not_the_same() -> None:
    """Keys and values that changed places, that were cut elsewhere, or that are missing or empty."""
    rows: list[Pairs] = [
        [("a", "b")],
        [("b", "a")],
        [("ab", "")],
        [("", "ab")],
        [("a", None)],
        [("a", "")],
        [("a", "None")],
        [("a", "1"), ("b", "2")],
        [("a", "2"), ("b", "1")],
        [],
    ]
    assert len(set(names(column(rows)))) == len(rows)


def test_no_map_is_an_empty_one() -> None:
    """Sources send either."""
    assert len(set(names(column([None, [], None])))) == 1


def test_some_entries_are_kept() -> None:
    """The name is that of the map that has only them."""
    rows: list[Pairs] = [[("a", "1"), ("b", "2")], [("b", "3")], None, [("a", "1")]]
    entries = Entries.of(column(rows))
    keep = np.array([key == "a" for key in entries.keys.to_pylist()])
    found = hash_names([entries.filter(keep).hashes])
    expected = names(column([[("a", "1")], [], [], [("a", "1")]]))
    assert [tuple(name) for name in found.tolist()] == expected


@given(st.lists(st.tuples(texts | st.none(), texts | st.none(), st.integers(0, 3) | st.none()), max_size=8))
def test_names_tell_the_place_of_each_part(rows: list[tuple[str | None, str | None, int | None]]) -> None:
    """The same texts in other columns are another series; a text that is not there is none of those that are."""
    one, other = (pa.array([row[place] for row in rows], pa.string()) for place in (0, 1))
    numbers = pa.array([row[2] for row in rows], pa.int64())
    found = [
        tuple(name) for name in hash_names([text_hashes(one), text_hashes(other), number_hashes(numbers)]).tolist()
    ]
    assert [[a == b for b in rows] for a in rows] == [[a == b for b in found] for a in found]
    assert text_hashes(one.dictionary_encode()).tolist() == text_hashes(one).tolist()


@given(st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=20))
def test_mixing_keeps_words_apart(words: list[int]) -> None:
    """It can be undone, so no two words become one."""
    assert len(set(mix_bits(np.array(words, dtype=np.uint64)).tolist())) == len(words)


def test_names_stay_as_they_are() -> None:
    """Registers of old rows are merged with new ones: a name that changes would be counted as another series."""
    (name,) = names(column([[("host", "a"), ("zone", "b")]]))
    assert name == (8962843729770729562, 4559672243731145685)
