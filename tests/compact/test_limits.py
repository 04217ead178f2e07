"""Limits: what one run may take, and what is said when it may not."""

from __future__ import annotations

import pytest

from neve.compact.config import CompactConfig
from neve.compact.planning.limits import Budget, Limits, Spending


def test_zero_is_no_limit() -> None:
    """Whoever sets a limit to 0 wants none."""
    config = CompactConfig(max_bytes=0, max_files=0, max_seconds=0, max_dollars=0)
    assert Limits.of(config).broken_by(Spending(10**18, 10**12, 10**12, 10**12)) is None


@pytest.mark.parametrize(
    ("spending", "limit"),
    [
        (Spending(bytes=11), "max_bytes"),
        (Spending(files=6), "max_files"),
        (Spending(seconds=21), "max_seconds"),
        (Spending(dollars=1.5), "max_dollars"),
        (Spending(10, 5, 20, 1), None),
    ],
)
def test_the_limit_that_is_passed_is_named(spending: Spending, limit: str | None) -> None:
    """Seconds are shared by the groups that run at the same time."""
    limits = Limits(bytes=10, files=5, seconds=10, dollars=1, concurrency=2)
    assert limits.broken_by(spending) == limit


def test_a_budget_adds_up() -> None:
    """What was taken is gone; what is refused takes nothing."""
    budget = Budget(Limits(files=5))
    after = budget.take(Spending(files=3))
    assert isinstance(after, Budget)
    assert after.files_left == 2
    assert after.take(Spending(files=3)) == "max_files"
    assert isinstance(after.take(Spending(files=2)), Budget)


def test_dollars_of_this_hour_count() -> None:
    """What earlier runs spent within the hour is not there any more, and never less than nothing."""
    config = CompactConfig(max_dollars=2)
    assert Limits.of(config, spent_dollars=1.5).dollars == pytest.approx(0.5)
    assert Limits.of(config, spent_dollars=9).dollars == 0


def test_what_no_run_could_take_is_judged_by_a_whole_hour() -> None:
    """What is spent comes back with the next hour; and when nothing is left, nothing can be said of one group."""
    limits = Limits.of(CompactConfig(max_dollars=2), spent_dollars=1.5)
    assert limits.broken_by(Spending(dollars=1)) == "max_dollars"
    assert limits.never_allow(Spending(dollars=1)) is None
    assert limits.never_allow(Spending(dollars=3)) == "max_dollars"
    assert Limits.of(CompactConfig(max_dollars=2), spent_dollars=9).never_allow(Spending(dollars=3)) is None


def test_limits_in_words() -> None:
    """Each limit is said with its value."""
    limits = Limits(bytes=2048, files=5, seconds=60, dollars=0.25, concurrency=2)
    assert limits.describe("max_bytes") == "max_bytes (2.05 kB)"
    assert limits.describe("max_files") == "max_files (5 files)"
    assert limits.describe("max_seconds") == "max_seconds (60 s with 2 groups at a time)"
    assert limits.describe("max_dollars") == "max_dollars ($0.25 left of this hour)"
