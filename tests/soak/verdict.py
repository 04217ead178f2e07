"""The verdict: what was measured, as numbers, and which bounds it breaks."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.report import Numbers, Report

from tests.soak.backing import Backing
from tests.soak.recovery import Recovery, Returns, calm, slowest_back

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.soak.plan import Plan
    from tests.soak.sample import Sample
    from tests.soak.tally import Tally

LAG_INTERVALS = 2.0  # commit intervals that the newest record may be behind
MEMORY_GROWTH = 1.10  # of the last third against the second
FILES_GROWTH = 1.5  # of the last third against the second, at their most
RECOVERY_SECONDS = 60.0
ROLLUP_LAG_SECONDS = 240.0  # a window, its grace, and a job's turn
DECISION_LAG_SECONDS = 120.0
THIRDS_SECONDS = 300.0  # what is shorter tells nothing of growth


@dataclass(frozen=True)
class Finals:
    """What is found when all is over."""

    tallies: Mapping[str, Tally] = field(default_factory=dict)  # by table
    rollup_wrong: int = 0  # points that a closed window counts too few or too many
    undecided: int = 0  # traces without a decision
    decided_twice: int = 0
    errors: int = 0  # that the services logged; whoever is killed leaves some
    troubles: Sequence[str] = ()


@dataclass(frozen=True)
class Run:
    """All that is known of a run."""

    plan: Plan
    samples: Sequence[Sample]
    recoveries: Sequence[Recovery]
    finals: Finals
    sent_seconds: float
    failed_looks: int = 0  # samples that could not be taken
    returns: Returns = field(default_factory=Returns)
    backing: Backing = field(default_factory=Backing)


@dataclass(frozen=True)
class Verdict:
    """Numbers, and which bounds they break; none is good."""

    report: Report
    broken: tuple[str, ...]


def judge(run: Run) -> Verdict:
    """Measure a run and hold it against its bounds."""
    ours, ratios = _numbers(run), _ratios(run)
    report = Report("soak", ours=ours, ratios=ratios)
    return Verdict(report, tuple(_broken(run, ours, ratios)))


def _numbers(run: Run) -> Numbers:
    finals, tallies = run.finals, run.finals.tallies.values()
    numbers: Numbers = {
        "seconds": run.sent_seconds,
        "records": sum(one.acknowledged for one in tallies),
        "lost": sum(one.lost for one in tallies),
        "duplicated": sum(one.duplicated for one in tallies),
        "strangers": sum(one.strangers for one in tallies),
        "rollup_wrong": finals.rollup_wrong,
        "undecided": finals.undecided,
        "decided_twice": finals.decided_twice,
        "restarts": len(run.recoveries),
        "troubles": len(finals.troubles),
        "errors": finals.errors,
        "failed_looks": run.failed_looks,
        "postgres": int(run.backing.postgres),
        "kafka": int(run.backing.kafka),
    }
    lags = sorted(sample.lag for sample in _calm(run) if sample.lag is not None)
    if lags:
        numbers |= {"lag_s": lags[-1], "lag_p95_s": _p95(lags), "lag_intervals": lags[-1] / run.plan.commit_seconds}
    if run.recoveries:
        kills = [one.at for one in run.recoveries]
        numbers["recovery_s"] = max(one.seconds or float("inf") for one in run.recoveries)
        # Without a bound: a window is closed once a minute, and traces have to be silent for a while.
        numbers["rollups_back_s"] = slowest_back(kills, run.returns.rollups)
        numbers["tail_back_s"] = slowest_back(kills, run.returns.tail)
    return {**numbers, **_sizes(run), **_other_lags(run)}


def _sizes(run: Run) -> Numbers:
    """Files and memory, also by role, so that a growth has a name."""
    if not run.samples:
        return {}
    roles = sorted({role for sample in run.samples for role in sample.memory})
    most = {f"{role}_mb": max(sample.memory.get(role, 0) for sample in run.samples) / 1e6 for role in roles}
    return {
        "files_max": max(sum(sample.files.values()) for sample in run.samples),
        "memory_mb": max(sample.total_memory for sample in run.samples) / 1e6,
        **most,
    }


def _other_lags(run: Run) -> Numbers:
    rollups = [sample.rollup_lag for sample in _calm(run) if sample.rollup_lag is not None]
    decisions = [sample.decision_lag for sample in _calm(run) if sample.decision_lag is not None]
    found = {"rollup_lag_s": max(rollups, default=None), "decision_lag_s": max(decisions, default=None)}
    return {name: value for name, value in found.items() if value is not None}


def _ratios(run: Run) -> Numbers:
    second, last = _thirds(run)
    if not second or not last:
        return {}
    memory = [statistics.mean(sample.total_memory for sample in third) for third in (second, last)]
    files = [max(sum(sample.files.values()) for sample in third) for third in (second, last)]
    return {"memory_last_third": memory[1] / memory[0], "files_last_third": files[1] / max(1, files[0])}


def _thirds(run: Run) -> tuple[list[Sample], list[Sample]]:
    """The second and the last third of the time in which was sent."""
    first, second = run.sent_seconds / 3, 2 * run.sent_seconds / 3
    sending = [sample for sample in run.samples if first <= sample.at <= run.sent_seconds]
    return [one for one in sending if one.at < second], [one for one in sending if one.at >= second]


def _broken(run: Run, ours: Numbers, ratios: Numbers) -> list[str]:
    bounds = {"lag_intervals": LAG_INTERVALS, "recovery_s": RECOVERY_SECONDS}
    bounds |= {"rollup_lag_s": ROLLUP_LAG_SECONDS, "decision_lag_s": DECISION_LAG_SECONDS}
    none = ("lost", "duplicated", "strangers", "rollup_wrong", "undecided", "decided_twice")
    broken = [f"{name} is {ours[name]:g}, expected 0" for name in none if ours[name]]
    broken += [
        f"{name} is {ours[name]:.4g}, expected {bound:g} at most"
        for name, bound in bounds.items()
        if name in ours and ours[name] > bound
    ]
    # Who was killed began anew with little memory: then a third says nothing of the one before.
    if not run.plan.kills and run.sent_seconds >= THIRDS_SECONDS:
        growth = {"memory_last_third": MEMORY_GROWTH, "files_last_third": FILES_GROWTH}
        broken += [
            f"{name} is {ratios[name]:.3f}, expected {most:g} at most"
            for name, most in growth.items()
            if ratios.get(name, 0) > most
        ]
    if not ours["records"]:
        broken.append("no record was acknowledged")
    return [*broken, *run.finals.troubles]


def _calm(run: Run) -> list[Sample]:
    sending = [sample for sample in run.samples if sample.at <= run.sent_seconds]
    return calm(sending, [one.at for one in run.recoveries], run.plan.recovery_seconds)


def _p95(ordered: Sequence[float]) -> float:
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
