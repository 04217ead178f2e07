"""The sample in Python against definitions that are as plain as can be."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.errors import ConfigError, InvalidWeight
from neve.reservoir.sampling.methods import (
    LARGEST_EXACT,
    POINT,
    Draw,
    KeptItem,
    Reservoir,
    make_salt,
    place_of,
    sample_exact_total,
    sample_priority,
    uniform,
)

if TYPE_CHECKING:
    from neve.reservoir.sampling.methods import Key

SALT = make_salt("reference")
Items = list[tuple["Key", float | None]]
WEIGHTS = st.one_of(st.floats(1e-3, 1e6), st.sampled_from([1.0, 2.0, 1e9]), st.integers(1, 50).map(float), st.none())
SIZES = st.integers(1, 40)
POPULATIONS = st.dictionaries(st.one_of(st.integers(-(2**63), 2**63 - 1)), WEIGHTS, max_size=60).map(
    lambda found: list(found.items())
)


@given(POPULATIONS, SIZES)
def test_priority_is_the_definition(items: Items, k: int) -> None:
    """Sort all by weight / chance, take k, and let the next one be the threshold."""
    assert sample_priority(items, k, SALT) == _plain_priority(items, k)


@given(POPULATIONS, SIZES, st.randoms(use_true_random=False))
def test_neither_order_nor_parts_matter(items: Items, k: int, random: object) -> None:
    """A sample of parts, each in an order of its own, merged in any order, is the sample of the whole."""
    wanted = sample_priority(items, k, SALT)
    shuffled = items.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    parts = [Reservoir(k, SALT) for _part in range(4)]
    for number, (key, weight) in enumerate(shuffled):
        parts[number * number % 4].add(key, weight)
    whole = Reservoir(k, SALT)
    for part in parts:
        whole.merge(part)
    assert whole.sample() == wanted
    assert sample_exact_total(items, k, SALT) == pytest.approx(sample_exact_total(items, k, SALT))
    assert _keys(sample_exact_total(shuffled, k, SALT)) == _keys(sample_exact_total(items, k, SALT))


@pytest.mark.slow
@given(POPULATIONS, SIZES)
@settings(max_examples=200)
def test_exact_total_is_the_definition(items: Items, k: int) -> None:
    """K items whose counts add up to the total; the heavy as themselves, the light all at one threshold."""
    kept = sample_exact_total(items, k, SALT)
    total = math.fsum(_weight(weight) for _key, weight in items)
    assert len(kept) == min(k, len(items))
    assert math.fsum(one.adjusted for one in kept) == pytest.approx(total, rel=1e-12)
    assert all(one.adjusted >= one.weight for one in kept)
    if len(items) > k:
        threshold = _plain_threshold([_weight(weight) for _key, weight in items], k)
        assert all(one.adjusted == pytest.approx(max(one.weight, threshold), rel=1e-12) for one in kept)
        assert _keys(kept) == _plain_systematic(items, k, threshold)


@given(POPULATIONS, SIZES)
def test_a_heavy_item_is_always_there(items: Items, k: int) -> None:
    """In exact_total, an item of more than a k-th of the whole is kept, as itself."""
    total = math.fsum(_weight(weight) for _key, weight in items)
    kept = {one.key: one for one in sample_exact_total(items, k, SALT)}
    for key, weight in items:
        if _weight(weight) > total / k * (1 + 1e-9):
            assert kept[key] == KeptItem(key, _weight(weight), _weight(weight))


@given(POPULATIONS, SIZES)
def test_what_fits_is_kept_as_it_is(items: Items, k: int) -> None:
    """Groups that are no larger than k lose nothing and gain nothing."""
    for kept in (sample_priority(items[:k], k, SALT), sample_exact_total(items[:k], k, SALT)):
        assert {(one.key, one.weight) for one in kept} == {(key, _weight(weight)) for key, weight in items[:k]}
        assert all(one.adjusted == one.weight for one in kept)


def test_a_weight_may_be_huge_beside_the_others() -> None:
    """What the light items weigh is not lost in the rounding of the heavy one."""
    items: Items = [(0, 1e18), *((key, 1.0) for key in range(1, 1001))]
    kept = sample_exact_total(items, 100, SALT)
    assert len(kept) == 100
    assert math.fsum(one.adjusted for one in kept if one.key) == pytest.approx(1000.0, rel=1e-12)


def test_items_with_one_key_are_items_of_their_own() -> None:
    """They share their chance; none is dropped for the other's sake."""
    assert [one.weight for one in sample_priority([(1, 2.0), (1, 3.0), (1, 2.0)], 3, SALT)] == [3.0, 2.0, 2.0]
    assert len(sample_exact_total([(1, 2.0)] * 10, 4, SALT)) == 4


def test_ties_go_to_the_larger_key() -> None:
    """Where weight / chance is the same, as of two items with the chances of one key, the key decides."""
    same = {key: uniform(SALT, key) for key in (1, 2)}
    items: Items = list(same.items())
    assert [one.key for one in sample_priority(items, 1, SALT)] == [2]


@pytest.mark.parametrize("weight", [0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, 1e288])
def test_a_weight_that_means_nothing_is_refused_by_name(weight: float) -> None:
    """The message says which item it was, and what was wrong with it."""
    for draw in (sample_priority, sample_exact_total):
        with pytest.raises(
            InvalidWeight, match=re.escape(f"'the key' has the weight {weight}, expected a number above 0")
        ):
            draw([("fine", 1.0), ("the key", weight)], 3, SALT)


def test_the_largest_weights_stand_for_finite_numbers() -> None:
    """No chance is so small that a weight divided by it would be infinite."""
    items: Items = [(key, 9.9e287) for key in range(1000)]
    assert all(math.isfinite(one.adjusted) for one in sample_priority(items, 10, SALT))
    assert math.isfinite(9.9e287 / 2**-64)


@pytest.mark.parametrize("name", ["key", "Weight", "adjusted_weight", "top", "start", "total"])
def test_a_group_that_could_not_be_told_from_the_sample_is_refused(name: str) -> None:
    """Columns of one name would be confused, so they are not let in."""
    with pytest.raises(ConfigError, match=f"by = {name}: the sample has columns of that name"):
        Draw(("g", name), "id", 1, SALT)


def test_no_weight_is_one() -> None:
    """An item that nobody weighed stands for itself."""
    assert sample_priority([(1, None)], 1, SALT) == sample_exact_total([(1, None)], 1, SALT) == [KeptItem(1, 1.0, 1.0)]


def test_nothing_gives_nothing() -> None:
    """An empty group has an empty sample."""
    assert sample_priority([], 3, SALT) == sample_exact_total([], 3, SALT) == []


@pytest.mark.parametrize("k", [0, -1])
def test_a_sample_of_nothing_is_refused(k: int) -> None:
    """K is checked where a draw is described."""
    with pytest.raises(ConfigError, match=f"k = {k}: at least 1"):
        Draw(("g",), "id", k, SALT)


def test_exact_total_has_a_largest_k() -> None:
    """Above it, chances could not be added up in 64 bits; priority sampling has no such bound."""
    Draw(("g",), "id", LARGEST_EXACT, SALT, method="exact_total")
    Draw(("g",), "id", LARGEST_EXACT + 1, SALT)
    with pytest.raises(ConfigError, match="32,767 with exact_total"):
        Draw(("g",), "id", LARGEST_EXACT + 1, SALT, method="exact_total")
    assert (LARGEST_EXACT + 1) * POINT == 2**63


def _weight(weight: float | None) -> float:
    return 1.0 if weight is None else weight


def _keys(kept: list[KeptItem]) -> set[Key]:
    return {one.key for one in kept}


def _plain_priority(items: Items, k: int) -> list[KeptItem]:
    weighed = [(key, _weight(weight)) for key, weight in items]
    ranked = sorted(((weight / uniform(SALT, key), key, weight) for key, weight in weighed), reverse=True)
    threshold = ranked[k][0] if len(ranked) > k else 0.0
    return [KeptItem(key, weight, max(weight, threshold)) for _priority, key, weight in ranked[:k]]


def _plain_threshold(weights: list[float], k: int) -> float:
    """The smallest h for which the next weight is no more than what the rest has for each of k - h places."""
    ordered = sorted(map(Fraction, weights), reverse=True)
    for apart in range(k):
        threshold = sum(ordered[apart:], Fraction()) / (k - apart)
        if ordered[apart] <= threshold:
            return float(threshold)
    raise AssertionError("a group larger than k has a threshold")


def _plain_systematic(items: Items, k: int, threshold: float) -> set[Key]:
    """Lay the light items on a line, in the order of their places, and see on which of them the points fall."""
    heavy = {key for key, weight in items if _weight(weight) >= threshold}
    light = sorted((place_of(SALT, key), key, _weight(weight)) for key, weight in items if key not in heavy)
    lengths = [math.floor(weight / threshold * POINT + 0.5) for _place, _key, weight in light]
    line, wanted = sum(lengths), k - len(heavy)
    start = min(line - 1, int(uniform(SALT, ("start",)) * float(line)))
    points = [Fraction(start + number * line, wanted) for number in range(wanted)]
    found, begin = set(heavy), 0
    for (_place, key, _), length in zip(light, lengths, strict=True):
        if any(begin <= point < begin + length for point in points):
            found.add(key)
        begin += length
    return found
