"""Hashes and their shares: bit for bit as the collector's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from neve.tail.policy.evaluate.probability import MAX_HASH, compute_hash_share, find_largest_sampled, hash_traces
from tests.tail.policy.interpreter import plain_hash


@seed(1)
@given(st.lists(st.binary(min_size=16, max_size=16), max_size=40), st.text(max_size=20))
def test_hashes_are_fnv_1a(ids: list[bytes], salt: str) -> None:
    """Over the salt's bytes, then those of the id; an empty salt is the default one."""
    array = np.frombuffer(b"".join(ids), dtype=np.uint8).reshape(-1, 16)
    assert hash_traces(array, salt).tolist() == [plain_hash(salt, each) for each in ids]


def test_many_hashes() -> None:
    """Also over more traces than are worked on at a time, and on a view of them."""
    ids = np.random.default_rng(1).integers(0, 256, (40_000, 17), dtype=np.uint8)[:, 1:]
    found = hash_traces(ids, "x")
    assert all(found[place] == plain_hash("x", ids[place].tobytes()) for place in (0, 16_383, 16_384, 39_999))


@pytest.mark.parametrize(
    ("percentage", "largest"),
    [  # made with Go's math/big as the collector uses it
        (0, 0),
        (-3, 0),
        (1e-30, 0),
        (1e-15, 184),
        (0.001, 184467440737095),
        (1, 184467440737095519),
        (10, 1844674407370955263),
        (22.2, 4095177184363520511),
        (33.3, 6142765776545279999),
        (50, 9223372036854775807),
        (66.6, 12285531553090559999),
        (99.9, 18428297329635844095),
        (99.99999999999999, 18446744073709549567),
        (100, MAX_HASH),
        (150, MAX_HASH),
    ],
)
def test_thresholds_are_the_collectors(percentage: float, largest: int) -> None:
    """The product is rounded to 64 bits before it is cut."""
    assert find_largest_sampled(percentage) == largest


@seed(2)
@given(st.floats(0, 100))
def test_a_share_is_the_percentage(percentage: float) -> None:
    """Up to the grain of the hash."""
    assert abs(float(compute_hash_share(find_largest_sampled(percentage))) - percentage / 100) < 1e-15
