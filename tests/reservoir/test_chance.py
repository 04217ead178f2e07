"""Chances are numbers in (0, 1] that Spark and Python compute alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from neve.reservoir.sampling.methods import hash_key, hash_sql, make_salt, uniform, uniform_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from neve.reservoir.sampling.methods import Key

LONGS = st.integers(-(2**63), 2**63 - 1)
LEAVES = st.one_of(LONGS, st.text(), st.binary())
KEYS = st.one_of(LEAVES, st.tuples(LEAVES, LEAVES))
SALTS = (2**63 - 1, -(2**63), make_salt("a", "stage"))
TEXTS = ("", "a", "service-7", "Grüße, 世界", "x" * 100)


@given(LONGS, KEYS)
def test_a_chance_is_never_zero_and_never_above_one(salt: int, key: Key) -> None:
    """Weights are divided by it."""
    assert 0.0 < uniform(salt, key) <= 1.0
    assert 0 <= hash_key(salt, key) < 2**64


@given(LONGS, LEAVES, LEAVES)
def test_a_struct_is_its_fields_one_after_the_other(salt: int, first: Key, second: Key) -> None:
    """However deep it is, and a struct of nothing adds nothing."""
    assert hash_key(salt, (first, second)) == hash_key(salt, ((first,), ((second,),), ()))


def test_the_smallest_and_the_largest_hash_have_their_chances() -> None:
    """The ends of the 64 bits, by the words that Spark is given: computed here as Spark does."""
    for bits, wanted in ((0, 2.0**-64), (2**64 - 1, 1.0), (2**63, 0.5)):
        assert (float(bits >> 32) * 2**32 + float(bits & (2**32 - 1)) + 1.0) / 2**64 == wanted


def test_spark_computes_the_same_chances(spark: SparkSession) -> None:
    """Bit by bit, for whole numbers, text, bytes and structs, under the smallest and largest salts too."""
    numbers = [0, 1, -1, 7, 2**63 - 1, -(2**63)]
    rows = [(number, text, text.encode()[::-1]) for number in numbers for text in TEXTS]
    frame = spark.createDataFrame(rows, "n bigint, t string, b binary")
    kinds = {"n": "n", "t": "t", "b": "b", "s": "struct(n, t)", "deep": "struct(struct(b), struct(t, n))"}
    asked = [
        uniform_sql(hash_sql(salt, key)) + f" AS {name}_{number}"
        for number, salt in enumerate(SALTS)
        for name, key in kinds.items()
    ]
    found = frame.selectExpr("n", "t", "b", *asked).collect()
    assert len(found) == len(rows)
    for row in found:
        n, t, b = row.n, row.t, bytes(row.b)
        keys: dict[str, Key] = {"n": n, "t": t, "b": b, "s": (n, t), "deep": ((b,), (t, n))}
        for number, salt in enumerate(SALTS):
            for name, key in keys.items():
                assert row[f"{name}_{number}"] == uniform(salt, key), (salt, key)


def test_spark_reaches_the_ends_of_the_chances(spark: SparkSession) -> None:
    """All bits set is 1, and none is not 0."""
    ends = spark.sql(f"SELECT {uniform_sql('0L')}, {uniform_sql('-1L')}, {uniform_sql('(-1L << 63)')}").collect()[0]
    assert tuple(ends) == (2.0**-64, 1.0, 0.5)
