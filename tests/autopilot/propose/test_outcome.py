"""Outcomes: what was delivered corrects later promises, robustly and within bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.autopilot.outcome import (
    MAX_FACTOR,
    MAX_OUTCOMES,
    MIN_FACTOR,
    MIN_OUTCOMES,
    Outcome,
    QueryMeasurement,
    calibrate_estimate,
    compute_calibration,
    compute_delivered_pct,
)
from neve.autopilot.propose.proposal import Reduction

NOW = datetime(2026, 1, 31, tzinfo=UTC)
ESTIMATE = Reduction(50.0, 40.0, 60.0)
percents = st.floats(-50, 100)
outcomes = st.builds(
    lambda kind, day, promised, delivered: Outcome(
        "t", f"a{day}", kind, NOW + timedelta(days=day), promised, promised, delivered
    ),
    st.sampled_from(["sort", "zorder"]),
    st.integers(0, 1000),
    st.floats(0, 100),
    percents,
)
estimates = st.lists(percents, min_size=3, max_size=3).map(sorted).map(lambda one: Reduction(one[1], one[0], one[2]))


def ratios(*found: float, kind: str = "sort") -> list[Outcome]:
    """Outcomes of a promise of 50 %, a day apart."""
    return [
        Outcome("t", f"a{day:03}", kind, NOW + timedelta(days=day), 50.0, 40.0, 50.0 * ratio)
        for day, ratio in enumerate(found)
    ]


@given(estimates, st.lists(outcomes, max_size=12), st.randoms(use_true_random=False))
def test_a_correction_is_bounded_and_keeps_its_order(estimate: Reduction, past: list[Outcome], random: object) -> None:
    """Bounds around the value, nothing over 100 %, the factor within its own, whatever order the past is told in."""
    found = calibrate_estimate(estimate, "sort", past)
    assert found.low_pct <= found.pct <= found.high_pct <= 100
    assert MIN_FACTOR <= compute_calibration("sort", past).factor <= MAX_FACTOR
    shuffled = sorted(past, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert compute_calibration("sort", shuffled).factor == pytest.approx(compute_calibration("sort", past).factor)


@given(estimates, st.lists(outcomes, max_size=12))
def test_other_kinds_teach_nothing(estimate: Reduction, past: list[Outcome]) -> None:
    """What z-orders delivered says nothing about sorts."""
    assert calibrate_estimate(estimate, "sort", [one for one in past if one.kind == "zorder"]) == estimate


@given(st.lists(st.floats(0.6, 1.1), min_size=4, max_size=12), st.floats(-10, 10))
def test_one_outlier_does_not_decide(usual: list[float], odd: float) -> None:
    """The factor stays within what the others delivered."""
    factor = compute_calibration("sort", ratios(*usual, odd)).factor
    assert min(usual) - 1e-9 <= factor <= max(usual) + 1e-9


def test_promises_that_were_kept_are_not_corrected() -> None:
    """Nor are those of which too little is known."""
    assert calibrate_estimate(ESTIMATE, "sort", ratios(*[1.0] * 5)) == ESTIMATE
    assert calibrate_estimate(ESTIMATE, "sort", ratios(*[0.5] * (MIN_OUTCOMES - 1))) == ESTIMATE
    assert "expected at least 3 for a calibration" in compute_calibration("sort", ratios(0.5)).reason


def test_promises_that_were_too_high_come_down() -> None:
    """By what was delivered of them, and with their bounds."""
    assert calibrate_estimate(ESTIMATE, "sort", ratios(0.7, 0.8, 0.9)) == Reduction(40.0, 32.0, 48.0)
    assert (
        compute_calibration("sort", ratios(0.7, 0.8, 0.9)).reason == "3 outcomes of sort delivered 0.80 of the estimate"
    )
    assert calibrate_estimate(ESTIMATE, "sort", ratios(-1, -1, -1)).pct == 50.0 * MIN_FACTOR


def test_the_newest_outcomes_count() -> None:
    """Data changes its shape: what was long ago is not asked."""
    old, new = [0.5] * MAX_OUTCOMES, [1.1] * MAX_OUTCOMES
    assert compute_calibration("sort", ratios(*old, *new)).factor == pytest.approx(1.1)


def test_what_was_delivered_is_weighed() -> None:
    """By how often queries are asked; nothing scanned before is nothing to compare."""
    assert compute_delivered_pct([QueryMeasurement(3, 100, 50), QueryMeasurement(1, 100, 100)]) == pytest.approx(37.5)
    assert compute_delivered_pct([QueryMeasurement(1, 100, 150)]) == pytest.approx(-50)
    assert compute_delivered_pct([]) is None
    assert ratios(0.79)[0].is_delivered is False
    assert ratios(0.81)[0].is_delivered is True
