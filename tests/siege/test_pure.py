"""How a siege is judged, and that its weapons are what they should be; the siege itself is `make siege`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from neve.app.settings import load_settings
from tests.siege.hostile import Attack, Place
from tests.siege.house import House, memory_mb
from tests.siege.machine import MachineReport
from tests.siege.messages import MARKS, logs, traces
from tests.siege.plan import HONEST, HOSTILE, Plan
from tests.siege.statements import announcements, attacks, promql, worst
from tests.siege.verdict import Run, by_attack, judge, p99
from tests.soak.tally import Tally

if TYPE_CHECKING:
    from pathlib import Path

GOOD = Tally(acknowledged=100, lost=0, duplicated=0, strangers=0)
MACHINE = MachineReport(1500.0, {"before": [0.001], "siege": [0.002, 0.25]}, {"siege": [0.001] * 99 + [0.5, 0.5]})
PLACE = Place(1, 2, 3, "key", "/nowhere", 200)


def waits(quiet: float, siege: float) -> dict[tuple[str, str], list[float]]:
    """The same wait for every protocol of a phase."""
    return {
        (phase, name): [seconds] * 200
        for phase, seconds in (("before", quiet), ("siege", siege), ("after", 2 * quiet))
        for name in ("http", "grpc", "query")
    }


def run(quiet: float = 0.2, siege: float = 0.4, tally: Tally = GOOD, foreign_rows: int = 0) -> Run:
    """A siege with these results."""
    return Run(waits(quiet, siege), [tally], foreign_rows, MACHINE, {"flood 200": 5, "flood 429": 7})


def test_a_siege_that_changes_little_is_good() -> None:
    """Twice the wait, nothing lost, nothing foreign."""
    report, broken = judge(run())
    assert broken == []
    assert report.ratios == {"honest_ack_p99": 2.0, "honest_query_p99": 2.0}
    assert {name: report.ours[name] for name in ("lost", "foreign_rows", "peak_mb", "hostile_refused")} == {
        "lost": 0,
        "foreign_rows": 0,
        "peak_mb": 1500.0,
        "hostile_refused": 7,
    }


def test_waits_of_the_machine_are_reported_by_name() -> None:
    """The longest stall of the processors and the syncs of the disk; they excuse nothing."""
    report, broken = judge(run(siege=0.7))
    assert len(broken) == 2
    assert (report.ours["before_host_stall_ms"], report.ours["host_stall_ms"]) == (1.0, 250.0)
    assert (report.ours["before_disk_sync_p99_ms"], report.ours["siege_disk_sync_p99_ms"]) == (-1.0, 500.0)


def test_each_promise_can_break() -> None:
    """A lost record, one that is there twice, a foreign row, and waits of more than three times."""
    assert "lost is 1" in judge(run(tally=Tally(100, 1, 0, 0)))[1][0]
    assert "duplicated is 2" in judge(run(tally=Tally(100, 0, 2, 0)))[1][0]
    assert "foreign_rows is 3" in judge(run(foreign_rows=3))[1][0]
    assert [words.split()[0] for words in judge(run(siege=0.7))[1]] == ["honest_ack_p99", "honest_query_p99"]
    assert judge(Run({}, [GOOD], 0, MACHINE, {"flood 200": 1}))[1], "nothing was measured"


def test_waits_that_nobody_notices_make_no_ratio() -> None:
    """From 2 ms to 8 ms the scheduler is measured, not the service."""
    assert judge(run(quiet=0.002, siege=0.008))[1] == []
    assert p99([1.0] * 99 + [9.0]) == 1.0


def test_both_sides_have_keys_and_limits(tmp_path: Path) -> None:
    """The service is configured by settings that it accepts."""
    house = House(tmp_path, Plan())
    settings = load_settings(str(house.config), {})
    assert (settings.receiver.auth, settings.query.auth) == ("keys", "keys")
    assert {rule.organization for rule in settings.query.limits} == {HONEST, HOSTILE}


def test_the_memory_of_a_process_is_counted() -> None:
    """All of it, and nothing for a process that is gone."""
    before = memory_mb(os.getpid())
    filled = bytearray(b"x") * (64 * 1024 * 1024)
    assert memory_mb(os.getpid()) - before > 50
    assert len(filled) > memory_mb(2**22 + 1) == 0.0


def test_a_foreign_row_in_an_answer_is_noticed(tmp_path: Path) -> None:
    """Marks are in every record, in no statement, and an answer that holds the other side's mark is counted."""
    bodies = [*announcements(tmp_path), *(body for _path, body in promql(10**9))]
    texts = [*worst(), *attacks(tmp_path), *(body.decode() for body in bodies)]
    assert len(texts) > 200
    assert not any(mark in text for mark in MARKS.values() for text in texts)
    for make in (logs, traces):
        assert MARKS[HONEST].encode() in make(HONEST, range(3), 10**18).SerializeToString()
    attack = Attack(PLACE)
    attack.count("query", 200, f"[{MARKS[HOSTILE]}]".encode())
    assert attack.foreign_rows == 0
    attack.count("query", 200, f"[{MARKS[HONEST]}]".encode())
    assert attack.foreign_rows == 1
    assert by_attack(attack.answers) == ["query: 200 2"]
