"""Weights of a sample that agree with what was counted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import DoubleType, LongType, StringType

from neve.autopilot.estimate.sample import Margin, calibrate_weights, count_positions, count_rows, find_row_positions
from neve.predicate.compiled_filters import compile_filters
from neve.predicate.filters import Test as Ask


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_weights_agree_with_one_column(seed: int, places: int) -> None:
    """Every cell weighs what was counted in it, and no row is worth less than nothing."""
    chance = np.random.default_rng(seed)
    rows = chance.integers(0, places, 500)
    masses = chance.integers(1, 1000, places).astype(float)
    margin = Margin.of(rows, masses, least=30)
    found = calibrate_weights(np.ones(len(rows)), [margin])
    held = np.bincount(margin.cells, found, minlength=len(margin.masses))
    assert held == pytest.approx(margin.masses * (len(rows) / masses.sum()))
    assert (found >= 0).all()
    assert np.bincount(margin.cells).min() >= 30
    assert margin.masses.sum() == pytest.approx(masses.sum())


def test_weights_agree_with_columns_that_depend_on_each_other() -> None:
    """Two columns, one following the other: both margins hold together."""
    chance = np.random.default_rng(5)
    whole = chance.integers(0, 100, 200_000)
    other = (whole + chance.integers(0, 30, len(whole))) // 10
    drawn = chance.permutation(len(whole))[:4000]
    margins = [
        Margin.of((values // 10)[drawn], np.bincount(values // 10).astype(float)) for values in (whole, other * 10)
    ]
    found = calibrate_weights(np.full(len(drawn), 50.0), margins)
    for margin in margins:
        assert np.bincount(margin.cells, found) == pytest.approx(margin.masses, rel=0.01)


def test_rows_are_counted_by_place() -> None:
    """Below, at and above each literal, and what has no value; whatever the type."""
    asked = [Ask("n", "eq", (5,)), Ask("t", "range", (), "b", "d"), Ask("x", "range", (), 0.5, None)]
    columns = compile_filters(asked, {"n": LongType(), "t": StringType(), "x": DoubleType()}).columns
    numbers = pa.array([1, 5, 5, 9, None], pa.int64())
    assert count_rows(columns["n"], numbers).tolist() == [1, 2, 1, 1]
    assert find_row_positions(columns["t"], pa.array(["a", "b", "c", "d", "e", None])).tolist() == [0, 1, 2, 3, 4, 5]
    assert count_rows(columns["x"], pa.array([0.1, float("nan"), 2.0]), np.array([1.0, 2.0, 3.0])).tolist() == [
        1,
        0,
        3,
        2,
    ]
    assert count_positions(columns["t"]) == 6
