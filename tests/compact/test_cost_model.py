"""Cost: seconds, requests and dollars of a rewrite, what it saves, and how past runs correct all that."""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from neve.compact.plan import Estimate, Executor
from neve.compact.planning.cost_model import (
    MB,
    SPEEDS,
    TB,
    Calibration,
    CostModel,
    Measurement,
    calibrate,
    weighted_median,
)
from neve.lake.config import PricesConfig


def measured(
    speed: float, ratio: float = 1.0, executor: Executor = Executor.ARROW, size: int = 100 * MB
) -> Measurement:
    """A rewrite that went at a speed."""
    return Measurement(size, round(size * ratio), 10, 1, size / speed, executor)


def test_without_history_the_defaults_hold() -> None:
    """Two runs teach nothing yet, and neither do tiny ones."""
    assert calibrate([]) == Calibration()
    assert calibrate([measured(1.0)] * 2).speeds == SPEEDS
    assert calibrate([measured(1.0, size=100)] * 50) == Calibration()


def test_each_executor_learns_its_own_speed() -> None:
    """What Arrow does says nothing of Spark; the ratio is that of both."""
    learnt = calibrate([measured(50 * MB, 0.5)] * 3 + [measured(9 * MB, 0.5, Executor.SPARK)] * 2)
    assert learnt.speeds[Executor.ARROW] == pytest.approx(50 * MB)
    assert learnt.speeds[Executor.SPARK] == SPEEDS[Executor.SPARK]
    assert learnt.ratio == pytest.approx(0.5)


@seed(1)
@given(st.floats(0.001, 1000.0), st.floats(0.0, 100.0))
def test_one_odd_run_moves_nothing(speed: float, ratio: float) -> None:
    """A machine that slept, or a table of zeros, does not spoil what many others say."""
    usual = [measured(20 * MB, 0.6)] * 9
    learnt = calibrate([*usual, measured(speed * MB, ratio)])
    assert learnt.speeds[Executor.ARROW] == pytest.approx(20 * MB)
    assert learnt.ratio == pytest.approx(0.6)


@seed(2)
@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 100)), min_size=1))
def test_the_median_is_one_of_the_values(values: list[tuple[float, int]]) -> None:
    """Half of the weight lies below or at it, half above or at it."""
    median = weighted_median(values)
    below = sum(weight for value, weight in values if value <= median)
    above = sum(weight for value, weight in values if value >= median)
    half = sum(weight for _value, weight in values) / 2
    assert below >= half
    assert above >= half


def test_an_estimate_counts_what_is_billed() -> None:
    """Two reads a file, one for each delete file, parts of large outputs, the commit; and the seconds of a core."""
    prices = PricesConfig(put_per_1000=1000, get_per_1000=1, compute_per_core_hour=3600)
    model = CostModel(prices, Calibration({Executor.ARROW: MB, Executor.SPARK: MB}))
    estimate = model.estimate(10, 100 * MB, 2, 64 * MB, Executor.ARROW, deletes=3)
    assert estimate.api_calls == (2 * 10 + 3) + 2 * (2 + 2) + 4
    assert estimate.seconds == pytest.approx(100 + 0.1 + 13 * 0.005)
    assert estimate.dollars == pytest.approx(0.023 + 12 + estimate.seconds)


def test_savings_come_from_queries_and_storage() -> None:
    """Fewer files are fewer reads; fewer bytes are cheaper to scan and to keep."""
    prices = PricesConfig(get_per_1000=1, list_per_1000=0, scan_per_tb=1, storage_gb_month=0)
    estimate = Estimate(1, TB, 1.0, 1, dollars=10.0)
    saved = CostModel(prices).savings(101, 2 * TB, estimate, queries_per_day=10)
    assert saved.dollars_per_day == pytest.approx(10 * (100 * 2 / 1000 + 1))
    assert saved.payback_days == pytest.approx(10 / 12)
    nothing = CostModel(prices).savings(1, TB, estimate, queries_per_day=0)
    assert nothing.payback_days == float("inf")
