"""How many series there are, to within a few percent, and the same however they come together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.model.series_identity import hash_names, text_hashes
from neve.rollup.series import NUMBER, HyperLogLog

if TYPE_CHECKING:
    import numpy.typing as npt


def names(numbers: range | list[int]) -> npt.NDArray[np.uint64]:
    """The first words of the names of some series."""
    texts = pa.array([f"series {number}" for number in numbers], pa.string())
    found: npt.NDArray[np.uint64] = hash_names([text_hashes(texts)])[:, 0]
    return found


def merged(words: npt.NDArray[np.uint64]) -> HyperLogLog:
    """All of them as one owner's."""
    return HyperLogLog.of_names(words).merge(np.zeros(len(words), dtype=np.int64))


def plain(registers: HyperLogLog) -> dict[tuple[int, int], int]:
    """Values by owner and number."""
    keys = zip(registers.owner.tolist(), registers.number.tolist(), strict=True)
    return dict(zip(keys, registers.value.tolist(), strict=True))


@pytest.mark.parametrize("start", [0, 1_000_000, 2_000_000])
@pytest.mark.parametrize("number", [1, 5, 100, 1000, 20_000])
def test_the_number_is_nearly_right(number: int, start: int) -> None:
    """Within 5 %, and exact for a few; series that come again count once."""
    series = [*range(start, start + number), *range(start, start + number // 2)]
    (found,) = merged(names(series)).estimates(1).tolist()
    assert found == pytest.approx(number, rel=0.05)
    if number <= 5:
        assert found == number


def test_many_are_counted_by_the_other_formula() -> None:
    """Where no register is left empty."""
    words = merged(names(range(200_000)))
    assert len(words.number) == NUMBER
    assert words.estimates(1)[0] == pytest.approx(200_000, rel=0.05)


groups = st.lists(st.lists(st.integers(0, 50), max_size=12), min_size=1, max_size=5)


@given(groups)
def test_merging_is_the_union(parts: list[list[int]]) -> None:
    """Merged one after the other or all at once, the registers are those of all series."""
    together = merged(names([series for part in parts for series in part]))
    singles = [merged(names(part)) for part in parts]
    flat = HyperLogLog(
        np.concatenate([np.full(len(one.number), number) for number, one in enumerate(singles)]).astype(np.int64),
        np.concatenate([one.number for one in singles]),
        np.concatenate([one.value for one in singles]),
    )
    assert plain(flat.merge(np.zeros(len(parts), dtype=np.int64))) == plain(together)
    assert plain(flat.merge(np.arange(len(parts)))) == plain(flat)
    apart = flat.estimates(len(parts)).tolist()
    assert apart == [int(one.estimates(1)[0]) for one in singles]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_a_register_holds_the_place_of_the_first_bit(words: list[int]) -> None:
    """The first 12 bits are its number; the value is the place of the first set bit of the other 52."""
    found = HyperLogLog.of_names(np.array(words, dtype=np.uint64))
    bits = [f"{word:064b}" for word in words]
    assert found.number.tolist() == [int(word[:12], 2) for word in bits]
    assert found.value.tolist() == [(word[12:] + "1").index("1") + 1 for word in bits]


@given(groups)
def test_some_owners_are_chosen(parts: list[list[int]]) -> None:
    """In the given order, with their registers."""
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    words = names([series for part in parts for series in part]) if len(owner) else np.zeros(0, dtype=np.uint64)
    flat = HyperLogLog.of_names(words).merge(owner)
    wanted = list(range(len(parts)))[::-2]
    chosen = plain(flat.select(np.array(wanted), len(parts)))
    assert chosen == {
        (wanted.index(who), number): value for (who, number), value in plain(flat).items() if who in wanted
    }
