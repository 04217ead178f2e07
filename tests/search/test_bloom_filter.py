"""Filters: never a word missed, few claimed that are not there, and the same bytes for ever."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.search.bloom_filter import VERSION, Probe, expected_rate, hash_words, make_filter, words_per_block

WORDS = st.frozensets(st.text(min_size=1), max_size=200)
RATES = st.sampled_from([0.5, 0.1, 0.01, 0.001])


def filter_of(words: list[str], rate: float = 0.01) -> bytes:
    """The filter of distinct words."""
    return make_filter(hash_words(pa.array(words, pa.string())), rate)


def may_hold(filled: bytes, words: Iterable[str]) -> bool:
    """Whether a filter may contain all of some words."""
    return Probe.of(words).may_be_in(filled)


@given(WORDS, RATES)
def test_no_word_is_missed(words: frozenset[str], rate: float) -> None:
    """One by one, and all together."""
    filled = filter_of(sorted(words), rate)
    assert all(may_hold(filled, [word]) for word in words)
    assert may_hold(filled, words)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_000, 100_000])
@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_few_other_words_are_claimed(count: int, rate: float) -> None:
    """About as many as were asked for."""
    filled = filter_of([f"in {number}" for number in range(count)], rate)
    claimed = np.mean([may_hold(filled, [f"out {number}"]) for number in range(20_000)])
    assert 0.6 * rate < claimed < 1.4 * rate


def test_all_words_must_be_there() -> None:
    """One that is missing is enough to rule a filter out."""
    filled = filter_of(["pool", "exhausted"])
    assert may_hold(filled, ["pool"])
    assert not may_hold(filled, ["pool", "empty"])


def test_a_filter_without_words_holds_none() -> None:
    """And takes no more than its version."""
    assert filter_of([]) == bytes([VERSION])
    assert not may_hold(filter_of([]), ["word"])


@pytest.mark.parametrize("filled", [b"", b"\x02" + bytes(32), bytes([VERSION]) + bytes(31)])
def test_of_what_is_not_understood_anything_may_be_held(filled: bytes) -> None:
    """A filter of another version, or a broken one, rules nothing out."""
    assert may_hold(filled, ["word"])


def test_filters_are_the_same_in_every_release() -> None:
    """They rest in tables: these bytes may only change with the version."""
    assert filter_of(["connection", "pool", "exhausted"]).hex() == PINNED


def test_a_probe_serves_many_filters() -> None:
    """Of any size."""
    probe = Probe.of(["w7"])
    filters = [filter_of([f"w{number}" for number in range(start, start + size)]) for start, size in SIZES]
    assert [probe.may_be_in(filled) for filled in filters] == [True, False, True]


@given(RATES)
def test_the_size_follows_the_rate(rate: float) -> None:
    """A block gets as many words as the rate allows."""
    assert expected_rate(words_per_block(rate)) == pytest.approx(rate, rel=0.01)


SIZES = ((0, 10), (100, 20), (5, 5_000))
PINNED = "010802080010080004c00002000010040100c000808400000400000c0420000180"
