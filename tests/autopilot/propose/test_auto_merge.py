"""auto_merge: within every bound or not at all, and the reason names what is in the way."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.autopilot.config import AutoMergeConfig
from neve.autopilot.propose.proposal import Proposal, Reduction
from neve.autopilot.propose.proposals import decide_auto_merge, is_within_hours
from tests.autopilot.propose.examples import PROPOSAL

NIGHT = datetime(2026, 1, 31, 2, 30, tzinfo=UTC)
BOUNDS = AutoMergeConfig(enabled=True, from_hour=22, to_hour=6, least_reduction_pct=50, largest_table_bytes=6 * 1024**3)


def test_within_all_bounds_it_is_allowed() -> None:
    """With a reason, too."""
    decision = decide_auto_merge(PROPOSAL, BOUNDS, NIGHT)
    assert decision.allowed
    assert "at least 55.5 % less to scan" in decision.reason


def test_it_is_off_until_somebody_turns_it_on() -> None:
    """The default merges nothing."""
    assert decide_auto_merge(PROPOSAL, AutoMergeConfig(), NIGHT).reason == "auto_merge is off"


@pytest.mark.parametrize(
    ("proposal", "said"),
    [
        (replace(PROPOSAL, table_bytes=7 * 1024**3), "the table has 7.52 GB, expected at most 6.44 GB"),
        (replace(PROPOSAL, kind="partition"), "the kind is partition"),
        (replace(PROPOSAL, cost_dollars=5.01), "it costs $5.01"),
        (replace(PROPOSAL, cost_dollars=float("nan")), "it costs $NaN"),
        (replace(PROPOSAL, estimate=Reduction(60, 49.9, 70)), "as low as 49.9 %"),
        (replace(PROPOSAL, measured=Reduction(60, 49.9, 70)), "as low as 49.9 %"),
        (replace(PROPOSAL, canary=()), "no canary"),
        (replace(PROPOSAL, canary=(replace(PROPOSAL.canary[0], equal=False),)), "no canary"),
    ],
)
def test_one_bound_is_enough_to_refuse(proposal: Proposal, said: str) -> None:
    """Each of them, by name."""
    decision = decide_auto_merge(proposal, BOUNDS, NIGHT)
    assert not decision.allowed
    assert said in decision.reason


def test_every_bound_in_the_way_is_named() -> None:
    """Not only the first; hours are those of UTC, wherever the clock stands."""
    noon = datetime(2026, 1, 31, 3, tzinfo=timezone(timedelta(hours=-9)))
    decision = decide_auto_merge(replace(PROPOSAL, kind="promote", cost_dollars=99), BOUNDS, noon)
    assert decision.reason.count("expected") == 3
    assert "it is 12 h UTC, expected 22 to 6 h" in decision.reason


@given(st.integers(0, 23), st.integers(0, 23), st.integers(0, 24))
def test_hours_go_over_midnight(hour: int, start: int, end: int) -> None:
    """A span is what one walks through from its first hour on, all day where it ends where it began."""
    length = (end - start) % 24 or 24
    assert is_within_hours(hour, start, end) == (hour in {(start + step) % 24 for step in range(length)})
