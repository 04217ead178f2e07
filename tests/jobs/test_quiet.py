"""Quiet hours: within, past midnight, on some days, where clocks change, and when they end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.jobs.policy import DAYS, HORIZON, Quiet, find_last_window, find_window

ZURICH = "Europe/Zurich"
clocks = st.builds(lambda hour, minute: f"{hour:02}:{minute:02}", st.integers(0, 23), st.integers(0, 59))


def hours(start: str, end: str, **more: Any) -> Quiet:
    """Quiet hours."""
    return Quiet(start=start, end=end, **more)


def at(text: str) -> datetime:
    """A time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_from_the_start_until_before_the_end() -> None:
    """10 March 2026 is a Tuesday."""
    quiet = hours("08:00", "17:00")
    assert find_window(quiet, at("2026-03-10T07:59")) is None
    assert find_window(quiet, at("2026-03-10T08:00")) is not None
    assert find_window(quiet, at("2026-03-10T16:59")) is not None
    assert find_window(quiet, at("2026-03-10T17:00")) is None


def test_past_midnight_they_belong_to_the_day_on_which_they_begin() -> None:
    """Of Friday only: Saturday's small hours are quiet, Friday's are not."""
    quiet = hours("22:00", "06:00", days=["fri"])
    assert find_window(quiet, at("2026-03-13T23:00")) is not None
    assert find_window(quiet, at("2026-03-14T05:59")) is not None
    assert find_window(quiet, at("2026-03-13T05:59")) is None
    assert find_window(quiet, at("2026-03-14T23:00")) is None


@pytest.mark.parametrize(("start", "end"), [("00:00", "24:00"), ("00:00", "00:00"), ("24:00", "24:00")])
def test_a_whole_day(start: str, end: str) -> None:
    """However it is written; 24:00 as a start is the next day's first moment."""
    day = "tue" if start == "00:00" else "mon"
    quiet = hours(start, end, days=[day])
    assert find_window(quiet, at("2026-03-09T23:59")) is None
    assert find_window(quiet, at("2026-03-10T00:00")) is not None
    assert find_window(quiet, at("2026-03-10T23:59")) is not None
    assert find_window(quiet, at("2026-03-11T00:00")) is None


def test_in_their_zone() -> None:
    """The end is told as it was written, in winter and in summer."""
    quiet = hours("08:00", "17:00", zone=ZURICH)
    winter, summer = find_window(quiet, at("2026-01-12T07:30")), find_window(quiet, at("2026-07-13T06:30"))
    assert winter is not None
    assert summer is not None
    assert (winter.end, summer.end) == (at("2026-01-12T16:00"), at("2026-07-13T15:00"))
    assert winter.end_words == summer.end_words == "17:00 Europe/Zurich"


def test_the_hour_that_is_there_twice_is_quiet_twice() -> None:
    """On 25 October 2026 clocks go back from 03:00 to 02:00 in Zurich."""
    quiet = hours("01:00", "02:30", zone=ZURICH)
    assert find_window(quiet, at("2026-10-25T00:15")) is not None  # 02:15 the first time
    assert find_window(quiet, at("2026-10-25T00:45")) is not None  # 02:45: rather too long than too short
    assert find_window(quiet, at("2026-10-25T01:15")) is not None  # 02:15 the second time
    assert find_window(quiet, at("2026-10-25T01:30")) is None


def test_the_hour_that_is_left_out() -> None:
    """On 29 March 2026 clocks go from 02:00 to 03:00: hours that end at 02:30 end no earlier than they would have."""
    quiet = hours("01:00", "02:30", zone=ZURICH)
    assert find_window(quiet, at("2026-03-29T01:29")) is not None
    assert find_window(quiet, at("2026-03-29T01:30")) is None


def test_hours_that_follow_each_other_are_one() -> None:
    """Nobody wants to be told 06:00 where it goes on until 09:00."""
    night, morning = hours("22:00", "06:00"), hours("06:00", "09:00", days=["wed"])
    found = find_last_window([night, morning], at("2026-03-10T23:00"))
    assert found is not None
    assert found.end == at("2026-03-11T09:00")
    assert find_last_window([night, morning], at("2026-03-10T12:00")) is None


def test_hours_without_a_gap_go_on_for_good() -> None:
    """The search for their end ends."""
    found = find_last_window([hours("00:00", "24:00")], at("2026-03-10T12:00"))
    assert found is not None
    assert found.end - at("2026-03-10T12:00") >= HORIZON


@settings(max_examples=150)
@given(
    clocks,
    clocks,
    st.sets(st.sampled_from(DAYS), min_size=1),
    st.sampled_from(["UTC", ZURICH, "America/New_York", "Australia/Lord_Howe"]),
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - UTC is given
)
def test_a_window_holds_the_moment_and_its_end_does_not(
    start: str, end: str, days: set[str], zone: str, moment: datetime
) -> None:
    """What is quiet now is quiet until just before the end that is told, and after the last end it is not."""
    quiet = hours(start, end, days=sorted(days), zone=zone)
    window = find_window(quiet, moment)
    if window is None:
        return
    assert window.start <= moment < window.end
    assert window.end - window.start <= timedelta(hours=25)
    assert find_window(quiet, window.end - timedelta(microseconds=1)) is not None
    last = find_last_window([quiet], moment)
    assert last is not None
    if last.end - moment < HORIZON:
        assert find_window(quiet, last.end) is None
