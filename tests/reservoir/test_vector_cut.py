"""Sampling of whole Arrow batches: the sample of the reference in plain Python, item by item."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.reservoir.sampling.methods import hash_key, make_salt, sample_priority, uniform
from neve.reservoir.sampling.vector_cut import GroupNumbers, TopRows, VectorDraw
from neve.reservoir.sampling.vector_hash import hash_columns, is_hashable, to_uniform

pytestmark = pytest.mark.slow

SALTS = st.integers(-(2**63), 2**63 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
ITEMS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.one_of(st.integers(0, 12), LONGS),
        st.one_of(st.sampled_from([1.0, 2.5]), st.floats(1e-300, 1e280)),
    ),
    max_size=40,
)


def draw_by_reference(rows: list[tuple[Any, ...]], k: int, salt: int) -> dict[Any, list[tuple[Any, float, float]]]:
    """Return the sample of each group, sorted."""
    groups: dict[Any, list[tuple[Any, float]]] = {}
    for group, key, weight in rows:
        groups.setdefault(group, []).append((key, weight))
    return {
        group: sorted((one.key, one.weight, one.adjusted) for one in sample_priority(items, k, salt))
        for group, items in groups.items()
    }


def to_table(rows: list[tuple[Any, ...]], kind: pa.DataType) -> pa.Table:
    """Return items as a table."""
    groups, keys, weights = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"g": pa.array(groups, pa.string()), "key": pa.array(keys, kind), "weight": pa.array(weights, pa.float64())}
    )


def found(sample: pa.Table | None) -> dict[Any, list[tuple[Any, float, float]]]:
    """Return a sample by group, sorted."""
    kept: dict[Any, list[tuple[Any, float, float]]] = {}
    for row in sample.to_pylist() if sample is not None else []:
        key = tuple(row["key"].values()) if isinstance(row["key"], dict) else row["key"]
        kept.setdefault(row["g"], []).append((key, row["weight"], row["adjusted_weight"]))
    return {group: sorted(rows) for group, rows in kept.items()}


@settings(max_examples=200, deadline=None)
@given(salt=SALTS, keys=st.lists(st.binary(max_size=100), min_size=1, max_size=12))
def test_texts_are_hashed_as_one_by_one(salt: int, keys: list[bytes]) -> None:
    """Values of every length, below and above the 32 bytes of a stripe, have the hash of the reference."""
    expected = [hash_key(salt, key) for key in keys]
    assert hash_columns(salt, [pa.array(keys, pa.binary())]).tolist() == expected
    assert hash_columns(salt, [pa.array([b"x", *keys], pa.binary()).slice(1)]).tolist() == expected


@settings(max_examples=200, deadline=None)
@given(
    salt=SALTS, keys=st.lists(st.tuples(st.text(max_size=40), LONGS, st.binary(min_size=16, max_size=16)), min_size=1)
)
def test_keys_of_several_parts_are_hashed_one_after_the_other(salt: int, keys: list[tuple[str, int, bytes]]) -> None:
    """Texts, whole numbers and ids of fixed length; random numbers are the same doubles."""
    texts, numbers, ids = zip(*keys, strict=True)
    columns = [pa.array(texts), pa.array(numbers, pa.int64()), pa.array(ids, pa.binary(16))]
    hashes = hash_columns(salt, columns)
    assert hashes.tolist() == [hash_key(salt, key) for key in keys]
    assert to_uniform(hashes).tolist() == [uniform(salt, key) for key in keys]


def test_a_null_leaves_the_hash_before_it() -> None:
    """As in Spark, whose hash skips nulls."""
    column = pa.array([5, None], pa.int64())
    text = pa.array([None, "t"], pa.string())
    assert hash_columns(7, [column, text]).tolist() == [hash_key(7, 5), hash_key(7, "t")]
    assert is_hashable(pa.binary(16))
    assert not is_hashable(pa.int32())


@settings(max_examples=300, deadline=None)
@given(rows=ITEMS, k=st.integers(1, 6), salt=SALTS, cuts=st.lists(st.integers(0, 40), max_size=4))
def test_the_sample_is_that_of_the_reference(rows: list[tuple[Any, ...]], k: int, salt: int, cuts: list[int]) -> None:
    """From one batch, from many, and from cuts of parts that are merged: with equal items, ties and null groups."""
    draw = VectorDraw(("g",), "key", k, salt)
    expected = draw_by_reference(rows, k, salt)
    table = to_table(rows, pa.int64())
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [table.slice(start, end - start) for start, end in itertools.pairwise(edges)]
    assert found(draw.sample([table])) == expected
    assert found(draw.sample(parts)) == expected
    merged = [cut for part in parts if (cut := draw.cut([part])) is not None]
    assert found(draw.sample(merged)) == expected
    assert all(cut.num_rows <= 3 * (k + 1) for cut in merged)


@settings(max_examples=100, deadline=None)
@given(numbers=st.lists(st.tuples(st.sampled_from("pq"), LONGS), max_size=30), k=st.integers(1, 5), salt=SALTS)
def test_keys_of_structs_are_sampled(numbers: list[tuple[str, int]], k: int, salt: int) -> None:
    """A part and an id, as in OTAP folders."""
    rows = [(None, key, 1.0) for key in numbers]
    kind = pa.struct([("part", pa.string()), ("id", pa.int64())])
    structs = [(group, {"part": key[0], "id": key[1]}, weight) for group, key, weight in rows]
    table = to_table(structs, kind)
    assert found(VectorDraw(("g",), "key", k, salt).sample([table])) == draw_by_reference(rows, k, salt)


def test_memory_is_bounded_by_groups_and_not_by_rows() -> None:
    """Of a million rows with few different keys no more than the limit is held, also if all priorities are equal."""
    top, held = TopRows(10, "key"), 0
    for start in range(0, 1_000_000, 100_000):
        keys = pa.table({"key": np.arange(start, start + 100_000) % 3})
        top.add(keys, np.zeros(100_000, dtype=np.int64), np.ones(100_000))
        held = max(held, top._held)
    assert held <= 200_000
    result = top.finish()
    assert result is not None
    assert result[0].column("key").to_pylist() == [2] * 11


def test_groups_keep_their_numbers() -> None:
    """Groups of several columns have one number in all batches, whatever the dictionaries of these are."""
    numbers = GroupNumbers()
    first = numbers.find([pa.array(["a", "b", None, "a"]), pa.array([1, 1, 2, None])])
    second = numbers.find([pa.array([None, "a", "c"]).dictionary_encode(), pa.array([2, 1, 1])])
    names = numbers.names()
    assert [names[number] for number in first] == [("a", 1), ("b", 1), (None, 2), ("a", None)]
    assert [names[number] for number in second] == [(None, 2), ("a", 1), ("c", 1)]


def test_many_groups_are_sampled_alike() -> None:
    """More groups than rows of a batch, and enough rows for several cuts."""
    chance = np.random.default_rng(5)
    salt = make_salt("many")
    rows = list(
        zip(
            (str(number) for number in chance.integers(0, 3000, 20_000)),
            range(20_000),
            (1 - chance.random(20_000)) ** -0.7,
            strict=True,
        )
    )
    table = to_table(rows, pa.int64())
    draw = VectorDraw(("g",), "key", 3, salt)
    parts = [table.slice(start, 500) for start in range(0, 20_000, 500)]
    assert found(draw.sample(parts)) == draw_by_reference(rows, 3, salt)
