"""When schedules are due: intervals, cron expressions, changes of clocks, and what was missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.jobs.policy import Rule
from neve.jobs.schedule import (
    ScheduleMark,
    check_cron,
    explain_schedule,
    next_cron_time,
    next_time,
    parse_interval,
    parse_zone,
)

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
ZURICH = "Europe/Zurich"
moments = st.datetimes(datetime(2024, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - UTC is given
crons = st.sampled_from(
    [
        "* * * * *",
        "*/7 * * * *",
        "30 2 * * *",
        "45 2 * * *",
        "0 0 1 * *",
        "15 3 * * mon-fri",
        "0 */6 * * *",
        "30 1 29 2 *",
    ]
)
zones = st.sampled_from(["UTC", ZURICH, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])


def at(text: str) -> datetime:
    """A time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def done(moment: datetime, rule: Rule) -> ScheduleMark:
    """What is remembered after work was wanted."""
    return ScheduleMark(moment, rule.clock, moment)


@pytest.mark.parametrize(
    ("text", "length"),
    [("90s", timedelta(seconds=90)), ("10m", timedelta(minutes=10)), ("6h", timedelta(hours=6)), ("1w", timedelta(7))],
)
def test_an_interval_is_a_number_and_a_unit(text: str, length: timedelta) -> None:
    """In seconds, minutes, hours, days or weeks."""
    assert parse_interval(text) == length


@pytest.mark.parametrize("text", ["", "10", "m", "0s", "-1h", "1.5h", "10 m", "10min", "99999w", "٣m"])
def test_other_texts_are_no_intervals(text: str) -> None:
    """With what was expected."""
    with pytest.raises(ValueError, match="expected a number and a unit: 90s, 10m, 6h, 1d or 1w"):
        parse_interval(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("30 3 * *", "has 4 fields, expected five"),
        ("0 30 3 * * *", "has 6 fields, expected five"),
        ("61 * * * *", r"is not a cron expression \(bad minute\)"),
        ("* * * * funday", r"\(bad day-of-week\)"),
        ("0 0 30 feb *", r"\(bad day-of-month\)"),
        ("@daily", "has 1 fields"),
    ],
)
def test_what_is_no_cron_expression_is_said(text: str, words: str) -> None:
    """With the field that is wrong."""
    with pytest.raises(ValueError, match=words):
        check_cron(text)


@pytest.mark.parametrize("name", ["", "Europe", "Mars/Olympus", "../etc/passwd", "/etc/localtime"])
def test_what_is_no_time_zone_is_said(name: str) -> None:
    """A folder of zones is none, and neither is a file elsewhere."""
    with pytest.raises(ValueError, match="expected an IANA name"):
        parse_zone(name)


def test_cron_is_read_in_its_zone() -> None:
    """Half past three in Zurich is half past two in UTC, and half past one in summer."""
    assert next_cron_time("30 3 * * *", ZURICH, at("2026-01-10T12:00")) == at("2026-01-11T02:30")
    assert next_cron_time("30 3 * * *", ZURICH, at("2026-07-10T12:00")) == at("2026-07-11T01:30")


def test_a_time_that_is_left_out_comes_when_clocks_have_moved_on() -> None:
    """On 29 March 2026 there is no 02:30 in Zurich: the work is done at 03:00 summer time, and not left out."""
    assert next_cron_time("30 2 * * *", ZURICH, at("2026-03-28T12:00")) == at("2026-03-29T01:00")


def test_a_time_that_comes_twice_comes_once() -> None:
    """On 25 October 2026 there are two 02:45 in Zurich: between them and after the second, the next is a day later."""
    first, second = at("2026-10-25T00:45"), at("2026-10-25T01:45")
    assert next_cron_time("45 2 * * *", ZURICH, at("2026-10-24T12:00")) == first
    for moment in (first, second - timedelta(minutes=15), second):
        assert next_cron_time("45 2 * * *", ZURICH, moment) == at("2026-10-26T01:45")


@settings(max_examples=150)
@given(crons, zones, moments)
def test_the_next_time_is_later_and_there_is_none_between(text: str, zone: str, moment: datetime) -> None:
    """The next time after any moment before it, and after the moment itself, is the same one."""
    found = next_cron_time(text, zone, moment)
    assert found > moment
    assert found.second == found.microsecond == 0
    between = moment + (found - moment) / 2
    assert next_cron_time(text, zone, between) == found


def test_an_interval_is_due_at_once_and_then_by_the_last_time() -> None:
    """What was never done is not waited for."""
    rule = Rule(every="15m")
    assert next_time(rule, None, NOW) == NOW
    assert next_time(rule, done(NOW, rule), NOW + timedelta(minutes=3)) == NOW + timedelta(minutes=15)


def test_cron_counts_from_when_it_was_first_seen() -> None:
    """Nightly work is not done at noon because Neve was installed at noon."""
    rule = Rule(cron="30 3 * * *")
    assert next_time(rule, None, NOW) == at("2026-03-11T03:30")
    seen = ScheduleMark(None, rule.clock, NOW)
    assert next_time(rule, seen, at("2026-03-11T03:31")) == at("2026-03-11T03:30")


def test_another_cron_expression_counts_from_now() -> None:
    """A change at noon from 03:30 to 09:00 does not mean that this day's 09:00 was missed; nor does another zone."""
    before = done(at("2026-03-10T03:30"), Rule(cron="30 3 * * *"))
    assert next_time(Rule(cron="0 9 * * *"), before, NOW) == at("2026-03-11T09:00")
    assert next_time(Rule(cron="30 3 * * *", zone="America/New_York"), before, NOW) == at("2026-03-11T07:30")


def test_the_earlier_of_interval_and_cron_counts() -> None:
    """Whoever writes both wants both; whoever writes none is not started by the clock."""
    rule = Rule(every="1d", cron="0 13 * * *")
    assert next_time(rule, done(NOW, rule), NOW) == NOW + timedelta(hours=1)
    assert next_time(Rule(enabled=False), None, NOW) is None


@given(st.integers(1, 10_000), st.integers(0, 100_000))
def test_what_was_missed_is_due_once(every: int, late: int) -> None:
    """However long nobody looked, after the work the next time is a whole interval away."""
    rule = Rule(every=f"{every}s")
    woke = NOW + timedelta(seconds=every + late)
    when = next_time(rule, done(NOW, rule), woke)
    assert when is not None
    assert when <= woke
    assert next_time(rule, done(woke, rule), woke) == woke + timedelta(seconds=every)


def test_reasons() -> None:
    """Which clock it was, and how late it is."""
    every, cron = Rule(every="15m"), Rule(cron="30 3 * * *", zone=ZURICH)
    ran = ScheduleMark(NOW - timedelta(minutes=16), every.clock, NOW)
    assert explain_schedule(every, ran, NOW, NOW) == "every 15m: last 16 min ago"
    assert explain_schedule(every, None, NOW, NOW) == "every 15m: never run before"
    assert (
        explain_schedule(cron, None, at("2026-03-10T02:30"), NOW)
        == "cron 30 3 * * *: due since 2026-03-10 03:30 Europe/Zurich"
    )
    assert (
        explain_schedule(cron, None, at("2026-03-11T02:30"), NOW)
        == "cron 30 3 * * *: next 2026-03-11 03:30 Europe/Zurich"
    )
    both = Rule(every="1h", cron="0 13 * * *")
    assert explain_schedule(both, done(NOW, both), NOW + timedelta(hours=1), NOW).startswith("every 1h")
    assert explain_schedule(both, None, NOW, NOW) == "every 1h: never run before"


def test_marks_are_kept_as_they_are() -> None:
    """With and without a last time."""
    for mark in (ScheduleMark(None, "", NOW), ScheduleMark(NOW, "30 3 * * * UTC", NOW)):
        assert ScheduleMark.of(mark.document) == mark
