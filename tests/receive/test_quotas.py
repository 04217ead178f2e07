"""Nobody sends more than its rate in the long run, and nobody less because of others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from neve.receive.config import LimitConfig, ReceiverConfig
from neve.receive.quotas import Bucket, Quotas
from neve.receive.refusal import Refusal, Verdict
from neve.state.scopes import Caller

KEY, OTHER = "0123456789ab", "ba9876543210"


class Clock:
    """A clock that is set."""

    now = 1000.0

    def __call__(self) -> float:
        """What it was set to."""
        return self.now


def quotas(clock: Clock, *limits: dict[str, object]) -> Quotas:
    """Quotas of some limits."""
    return Quotas([LimitConfig.model_validate(limit) for limit in limits], clock)


def sends(found: Quotas, caller: Caller, size: int = 100, records: int = 1) -> str:
    """Send a message; how it ended."""
    try:
        found.check(caller)
        found.charge(caller, size, records)
    except Refusal as refusal:
        return refusal.reason
    return "taken"


@given(
    rate=st.integers(1, 1000),
    burst_seconds=st.integers(1, 20),
    messages=st.lists(st.tuples(st.floats(0, 5), st.integers(1, 5000)), max_size=60),
)
def test_what_is_taken_is_never_more_than_the_rate_and_the_burst(
    rate: int, burst_seconds: int, messages: list[tuple[float, int]]
) -> None:
    """But for the last message, which may overdraw; and who is told to wait may send after that time."""
    now = 0.0
    bucket = Bucket.full(rate, burst_seconds, now)
    taken = last = 0
    for pause, amount in messages:
        now += pause
        wait = bucket.wait(now)
        if wait:
            assert replace(bucket).wait(now + wait * 1.001) == 0.0
            continue
        bucket.take(amount, now)
        taken, last = taken + amount, amount
        assert taken - last <= rate * (now + burst_seconds) + 1e-6


@given(pauses=st.lists(st.floats(0.2, 5), max_size=50))
def test_who_stays_below_the_rate_is_never_refused(pauses: list[float]) -> None:
    """Whatever the rhythm."""
    clock = Clock()
    found = quotas(clock, {"bytes_per_second": 1000, "records_per_second": 10, "burst_seconds": 1})
    for pause in pauses:
        clock.now += pause
        assert sends(found, Caller("acme", KEY), 200, 2) == "taken"


def test_a_clock_that_goes_back_gives_nothing() -> None:
    """Nor does it take."""
    bucket = Bucket.full(10, 1, 100.0)
    bucket.take(20, 100.0)
    assert bucket.wait(50.0) == bucket.wait(100.0) > 0


def test_an_organization_over_its_quota_is_told_when_to_come_back() -> None:
    """With what is too much; others go on."""
    clock = Clock()
    found = quotas(clock, {"organization": "*", "bytes_per_second": 100, "burst_seconds": 2})
    assert [sends(found, Caller("hostile", KEY)) for _ in range(4)] == ["taken", "taken", *["over_quota_bytes"] * 2]
    assert sends(found, Caller("honest", OTHER)) == "taken"
    assert sends(found, Caller("hostile", KEY), 1000) == "over_quota_bytes"
    clock.now += 1
    assert sends(found, Caller("hostile", KEY), 1000) == "taken"
    with pytest.raises(Refusal, match="the organization hostile sends more than 100 bytes a second") as caught:
        found.check(Caller("hostile", OTHER))
    assert (caught.value.verdict, caught.value.retry_after_seconds) == (Verdict.BUSY, 10)


def test_the_most_exact_limit_counts() -> None:
    """An organization's own before that of each; and a key's own beside its organization's."""
    clock = Clock()
    found = quotas(
        clock,
        {"organization": "*", "records_per_second": 1, "burst_seconds": 1},
        {"organization": "acme", "records_per_second": 100, "burst_seconds": 1},
        {"organization": "acme", "key": KEY, "records_per_second": 2, "burst_seconds": 1},
        {"organization": "free"},
    )
    assert [sends(found, Caller("acme", KEY)) for _ in range(3)] == ["taken", "taken", "over_quota_records"]
    assert [sends(found, Caller("acme", OTHER)) for _ in range(50)] == ["taken"] * 50
    assert [sends(found, Caller("other", OTHER)) for _ in range(2)] == ["taken", "over_quota_records"]
    assert [sends(found, Caller("free", OTHER)) for _ in range(50)] == ["taken"] * 50


def test_what_is_refused_costs_nothing() -> None:
    """Neither account is charged where one of them is empty."""
    clock = Clock()
    found = quotas(
        clock,
        {"organization": "*", "bytes_per_second": 100, "burst_seconds": 10},
        {"organization": "*", "key": "*", "bytes_per_second": 1, "burst_seconds": 100},
    )
    assert [sends(found, Caller("acme", KEY)) for _ in range(20)].count("taken") == 1
    assert sends(found, Caller("acme", OTHER), 900) == "taken"


def test_a_limit_that_stands_twice_is_refused() -> None:
    """Nobody could tell which counts."""
    with pytest.raises(ValidationError, match="should have one entry"):
        ReceiverConfig.model_validate({"limits": [{"organization": "acme"}, {"organization": "acme"}]})
