"""The verdict: what was measured, as numbers, and which promises it breaks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.report import Numbers, Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.siege.machine import MachineReport
    from tests.soak.tally import Tally

MOST_RATIO = 3.0
BEFORE, SIEGE, AFTER = "before", "siege", "after"
ACKS, QUERY = ("http", "grpc"), "query"
# An answer quicker than this is as good as any: a ratio of two moments of the scheduler says nothing.
FLOOR_SECONDS = {"http": 0.02, "grpc": 0.02, "query": 0.1}


@dataclass(frozen=True)
class Run:
    """All that is known of a siege."""

    waits: Mapping[tuple[str, str], Sequence[float]]  # of the honest side, by phase and protocol
    tallies: Sequence[Tally]
    foreign_rows: int
    machine: MachineReport
    answers: Mapping[str, int]  # to the hostile side
    again: int = 0
    errors: int = 0
    troubles: Mapping[str, int] = field(default_factory=dict)


def judge(run: Run) -> tuple[Report, list[str]]:
    """The report, and which promises are broken; none is good."""
    ours = _numbers(run)
    ratios = {
        "honest_ack_p99": max(_ratio(run, protocol) for protocol in ACKS),
        "honest_query_p99": _ratio(run, QUERY),
    }
    broken = [f"{name} is {ours[name]:g}, expected 0" for name in ("lost", "duplicated", "foreign_rows") if ours[name]]
    broken += [
        f"{name} is {ratio:.2f} times that of the better quiet phase, expected {MOST_RATIO:g} at most"
        for name, ratio in ratios.items()
        if ratio > MOST_RATIO
    ]
    if not ours["records"]:
        broken.append("no record was acknowledged")
    if not ours["hostile_requests"]:
        broken.append("nobody attacked")
    broken += [f"{words} ({count} times)" for words, count in run.troubles.items()]
    return Report("siege", ours=ours, ratios=ratios), broken


def p99(waits: Sequence[float]) -> float:
    """The wait that one in a hundred exceeds.

    >>> p99([0.1] * 98 + [0.5, 2.0])
    0.5
    """
    ordered = sorted(waits)
    return ordered[max(0, -(-len(ordered) * 99 // 100) - 1)]


def _ratio(run: Run, protocol: str) -> float:
    """Compare with the better of the two quiet phases: a stall in one of them must not excuse the siege."""
    before, siege, after = (run.waits.get((phase, protocol), ()) for phase in (BEFORE, SIEGE, AFTER))
    if not (before and siege and after):
        return float("inf")
    return p99(siege) / max(min(p99(before), p99(after)), FLOOR_SECONDS[protocol])


def _numbers(run: Run) -> Numbers:
    numbers: Numbers = {
        "records": sum(one.acknowledged for one in run.tallies),
        "lost": sum(one.lost for one in run.tallies),
        "duplicated": sum(one.duplicated for one in run.tallies),
        "foreign_rows": run.foreign_rows,
        "peak_mb": run.machine.peak_mb,
        "again": run.again,
        "errors": run.errors,
        "hostile_requests": sum(run.answers.values()),
        "hostile_refused": sum(count for words, count in run.answers.items() if words.split()[-1][:1] in "45"),
    }
    for protocol in (*ACKS, QUERY):
        for phase in (BEFORE, SIEGE, AFTER):
            waits = run.waits.get((phase, protocol), ())
            numbers[f"{phase}_{protocol}"] = len(waits)
            numbers[f"{phase}_{protocol}_p99_ms"] = p99(waits) * 1000 if waits else -1.0
    return numbers | _machine(run.machine)


def _machine(machine: MachineReport) -> Numbers:
    """Waits of the machine: the longest in which the kernel or the host let nothing run, and syncs of the disk."""
    numbers: Numbers = {}
    for phase in (BEFORE, SIEGE, AFTER):
        stalls, syncs = machine.stalls.get(phase, ()), machine.syncs.get(phase, ())
        numbers["host_stall_ms" if phase == SIEGE else f"{phase}_host_stall_ms"] = max(stalls, default=0.0) * 1000
        numbers[f"{phase}_disk_sync_p99_ms"] = p99(syncs) * 1000 if syncs else -1.0
    return numbers


def by_attack(answers: Mapping[str, int]) -> list[str]:
    """What each attack was answered, the most frequent first, for people."""
    found: dict[str, Counter[str]] = {}
    for words, count in answers.items():
        name, _, answer = words.rpartition(" ")
        found.setdefault(name, Counter())[answer] += count
    return [
        f"{name}: " + ", ".join(f"{answer} {count:,}" for answer, count in answered.most_common())
        for name, answered in found.items()
    ]
