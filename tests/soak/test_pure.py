"""The parts of the soak that decide: a check that can't fail would prove nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.jobs.job import Job, JobState, Task
from tests.soak.backing import Backing
from tests.soak.plan import PARTS, Plan, Victim
from tests.soak.recovery import Recovery, Returns, calm
from tests.soak.sample import Sample
from tests.soak.tally import Tally, tally
from tests.soak.verdict import Finals, Run, judge
from tests.soak.work import overlaps

PLAN = Plan(1200, 2000)
GOOD = Tally(acknowledged=10, lost=0, duplicated=0, strangers=0)
FINALS = Finals({"spans": GOOD, "logs": GOOD})
MB = 1_000_000


def samples(seconds: int = 1200, *, lag: float = 12, memory: int = 900, files: int = 100) -> list[Sample]:
    """A look every five seconds at a service that is well."""
    return [
        Sample(
            at, {"tend": memory * MB, "receiver": 100 * MB}, {"spans": lag, "logs": lag - 3}, {"spans": files}, 70, 20
        )
        for at in range(5, seconds, 5)
    ]


def run_of(seen: list[Sample], **changes: object) -> Run:
    """A run that is good unless something is changed."""
    run = Run(PLAN, seen, (), FINALS, PLAN.seconds)
    return replace(run, **changes)  # type: ignore[arg-type]


def test_a_good_run_breaks_nothing_and_has_the_numbers_that_were_asked_for() -> None:
    """Those of the issue, with their units."""
    verdict = judge(run_of(samples()))
    assert verdict.broken == ()
    ours, ratios = verdict.report.ours, verdict.report.ratios
    assert (ours["lost"], ours["duplicated"], ours["lag_s"], ours["lag_intervals"]) == (0, 0, 12, 1.2)
    assert (ours["records"], ours["files_max"], ours["memory_mb"], ours["restarts"]) == (20, 100, 1000, 0)
    assert ratios["memory_last_third"] == pytest.approx(1)


def test_each_bound_is_told_by_its_name() -> None:
    """With what was found and what was expected."""
    bad = Tally(acknowledged=10, lost=2, duplicated=1, strangers=3)
    finals = Finals({"spans": bad}, rollup_wrong=4, undecided=5, decided_twice=6, troubles=("it smells",))
    seen = [replace(one, rollup_lag=900, decision_lag=800) for one in samples(lag=21)]
    broken = judge(run_of(seen, finals=finals)).broken
    names = ("lost", "duplicated", "strangers", "rollup_wrong", "undecided", "decided_twice")
    assert [words.split()[0] for words in broken[:6]] == list(names)
    assert "lag_intervals is 2.1, expected 2 at most" in broken
    assert {words.split()[0] for words in broken[6:-1]} == {"lag_intervals", "rollup_lag_s", "decision_lag_s"}
    assert broken[-1] == "it smells"


def test_memory_and_files_that_grow_in_the_last_third_are_found() -> None:
    """Not those that grew before, when everything was still warming up."""
    grown = [
        replace(one, memory={"tend": 1200 * MB}, files={"spans": 400}) if one.at > 800 else one for one in samples()
    ]
    broken = judge(run_of(grown)).broken
    assert [words.split()[0] for words in broken] == ["memory_last_third", "files_last_third"]
    early = [replace(one, memory={"tend": 300 * MB}) if one.at < 400 else one for one in samples()]
    assert not judge(run_of(early)).broken


def test_a_lag_is_excused_for_a_minute_after_a_start_and_a_kill_and_no_longer() -> None:
    """The same lag at other times is not."""
    kill = Recovery(Victim.TEND, 300.0, 40.0)

    def late(at: float) -> Run:
        seen = [replace(one, lags={"spans": 50.0}) if one.at == at else one for one in samples()]
        return run_of(seen, recoveries=[kill])

    for at, excused in ((30, True), (65, False), (295, False), (300, True), (355, True), (360, False)):
        assert (not judge(late(at)).broken) is excused, at


def test_a_recovery_that_takes_too_long_or_never_comes_is_found() -> None:
    """And memory is not compared across kills."""
    plan = Plan(1200, 2000, kill=True)
    for seconds in (61.0, None):
        slow = Recovery(Victim.JVM, 300.0, seconds)
        broken = judge(run_of(samples(), plan=plan, recoveries=[slow])).broken
        assert [words.split()[0] for words in broken] == ["recovery_s"]
    assert "never" in str(Recovery(Victim.JVM, 300.0, None))


def test_rollups_and_decisions_that_come_back_late_are_told_and_break_nothing() -> None:
    """The slowest of all kills; what was about to be committed when one was killed does not count."""
    kills = [Recovery(Victim.TEND, 100.0, 20.0), Recovery(Victim.JVM, 300.0, 20.0)]
    returns = Returns(rollups=[380.0, 50.0, 102.0, 170.0], tail=[110.0, 290.0])
    verdict = judge(run_of(samples(), plan=Plan(1200, 2000, kill=True), recoveries=kills, returns=returns))
    assert verdict.broken == ()
    assert verdict.report.ours["rollups_back_s"] == 80
    assert verdict.report.ours["tail_back_s"] == float("inf"), "no decision came after the second kill"
    assert "rollups_back_s" not in judge(run_of(samples())).report.ours


def test_what_the_services_shared_is_in_the_report() -> None:
    """Without a server for the state or the bus, a good run proves nothing of it."""
    state = {"url": "postgresql://127.0.0.1:5432/neve", "user": "neve"}
    both = Backing.of({"state": state, "bus": {"kind": "kafka", "bootstrap_servers": "127.0.0.1:9092"}})
    assert str(both) == "state in PostgreSQL, bus on Kafka"
    assert str(Backing.of({})) == "state in SQLite, bus in the state store"
    for backing, expected in ((both, (1, 1)), (Backing.of({"state": state}), (1, 0)), (Backing(), (0, 0))):
        ours = judge(run_of(samples(), backing=backing)).report.ours
        assert (ours["postgres"], ours["kafka"]) == expected


def test_nothing_that_was_acknowledged_is_no_success() -> None:
    """Whatever else is well."""
    finals = Finals({"spans": Tally(0, 0, 0, 0)})
    assert judge(run_of(samples(), finals=finals)).broken == ("no record was acknowledged",)


def test_every_part_is_killed_in_turn_and_has_time_to_recover() -> None:
    """Also the last one, before the sending ends."""
    kills = Plan(1200, 2000, kill=True).kills
    assert [victim for _at, victim in kills[: len(PARTS)]] == list(PARTS)
    assert kills[-1][0] + 60 < 1200
    assert not PLAN.kills
    assert {victim for _at, victim in Plan(600, 10, two=True).kills} == {Victim.SERVICE}


def test_calm_is_what_no_kill_explains() -> None:
    """From the kill on, not before it."""
    seen = [Sample(at) for at in (5, 59, 60, 99, 100, 159, 160)]
    assert [one.at for one in calm(seen, [100.0], 60)] == [60, 99, 160]


@given(st.sets(st.integers(0, 10**18), max_size=30), st.data())
def test_a_tally_counts_what_is_missing_doubled_and_strange(keys: set[int], data: st.DataObject) -> None:
    """Whatever the order of rows and the size of messages."""
    ordered = sorted(keys)
    lost = data.draw(st.sets(st.sampled_from(ordered)) if ordered else st.just(set()))
    doubled = data.draw(st.lists(st.sampled_from(sorted(keys - lost)), max_size=5) if keys - lost else st.just([]))
    strange = data.draw(st.sets(st.integers(-(10**9), -1), max_size=5))
    rows = data.draw(st.permutations([*(keys - lost), *doubled, *strange]))
    messages = [np.array(ordered[start : start + 7], np.int64) for start in range(0, len(ordered), 7)]
    found = tally(messages, np.array(rows, np.int64))
    assert found == Tally(len(keys), len(lost), len(doubled), len(strange))
    assert found.good is not bool(lost or doubled or strange)


def test_two_workers_at_one_subject_at_one_time_are_found() -> None:
    """One after the other is no trouble, nor are two subjects at a time."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def job(table: str, start: int, end: int, owner: str) -> Job:
        return Job(
            f"{table}{start}",
            Task.COMPACT,
            table,
            "",
            "because",
            noon,
            noon,
            JobState.DONE,
            owner=owner,
            started=noon + timedelta(seconds=start),
            ended=noon + timedelta(seconds=end),
        )

    good = [job("logs", 0, 10, "a"), job("logs", 10, 20, "b"), job("spans", 5, 15, "b")]
    assert overlaps(good) == []
    assert overlaps([*good, job("logs", 19, 30, "c")]) == ["compact/logs/ was worked on by b and c at one time"]
