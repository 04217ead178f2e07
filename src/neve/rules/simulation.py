"""Replay rules over the past, part after part, and report the alerts that would have fired.

A part is as long as its samples fit into memory. All rules are replayed over it, one after the other, then comes the
next part. Memory is that of one part and of the recorded results that later rules reach back to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.promql.engine import Engine
from neve.promql.language.parser import parse
from neve.promql.language.syntax import METRIC_NAME, VectorSelector, walk
from neve.rules.evaluation import ALERTS, ALERTS_FOR_STATE
from neve.rules.overlay_source import OverlaySource
from neve.rules.replay_source import EarlierResults, SampleCache
from neve.rules.rule_replay import AlertPeriod, RuleReplay
from neve.rules.running.late_data import find_reach

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.promql.series import SeriesSource
    from neve.rules.evaluation import EvaluationOptions
    from neve.rules.rule_file import Group, Rule

__all__ = ["AlertPeriod", "RuleSimulation", "Simulation", "format_time", "simulate"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_STEPS, MAX_STEPS = 500, 5_000  # of the rule that is evaluated most often, in one part
PART_SAMPLES = 1_000_000  # of the largest query of a part; with all that is computed from them, some 100 MB
MAX_GROWTH = 4.0  # of a part to the next one


@dataclass(frozen=True, slots=True)
class RuleSimulation:
    """Replay of one rule."""

    group: str
    rule: str
    kind: str
    steps: int
    samples: int
    periods: tuple[AlertPeriod, ...]
    notifications: int
    failures: int
    error: str
    note: str

    @property
    def firing_count(self) -> int:
        """Return the number of periods in which an alert fired."""
        return sum(one.fired_at_ms is not None for one in self.periods)


@dataclass(frozen=True, slots=True)
class Simulation:
    """Replay of all rules from `start_ms` to `end_ms`."""

    start_ms: int
    end_ms: int
    rules: tuple[RuleSimulation, ...]

    def as_document(self) -> dict[str, Any]:
        """Return the replay as JSON values. Times are in UTC."""
        return {
            "since": format_time(self.start_ms),
            "until": format_time(self.end_ms),
            "rules": [_describe_rule(one) for one in self.rules],
        }


def format_time(time_ms: int) -> str:
    """Return a time in ISO 8601.

    >>> format_time(1_500)
    '1970-01-01T00:00:01.500Z'
    """
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds" if time_ms % 1000 else "seconds").replace("+00:00", "Z")


def _describe_rule(one: RuleSimulation) -> dict[str, Any]:
    numbers = {"evaluations": one.steps, "samples": one.samples, "fired": one.firing_count, "active": len(one.periods)}
    return {
        "group": one.group,
        "rule": one.rule,
        "kind": one.kind,
        **numbers,
        "notifications": one.notifications,
        "failures": one.failures,
        "error": one.error,
        "note": one.note,
        "periods": [_describe_period(period) for period in one.periods],
    }


def _describe_period(period: AlertPeriod) -> dict[str, Any]:
    return {
        "labels": dict(period.labels),
        "active_at": format_time(period.active_at_ms),
        "fired_at": None if period.fired_at_ms is None else format_time(period.fired_at_ms),
        "ended_at": None if period.ended_at_ms is None else format_time(period.ended_at_ms),
        "peak": period.peak if math.isfinite(period.peak) else str(period.peak),
    }


def simulate(
    groups: Sequence[Group],
    source: SeriesSource,
    start_ms: int,
    end_ms: int,
    options: EvaluationOptions,
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> Simulation:
    """Return what the rules would have done. Rules see the results of those before them, in the order of the files."""
    cache = SampleCache(source)
    replays = _open_replays(groups, cache, options)
    reach = max((find_reach(one.rule, {}) + one.group.query_offset_ms for one in replays), default=0)
    interval, steps, first = min((one.step_ms for one in replays), default=options.interval_ms), FIRST_STEPS, start_ms
    while first <= end_ms:
        last = min(end_ms, first + steps * interval - 1)
        for one in replays:
            one.run(first, last)
        for one in replays:
            one.results.drop_before(last - reach)
        cache.clear()
        first = last + 1
        progress("time", min(first, end_ms) - start_ms, end_ms - start_ms)
        steps = _choose_steps(steps, max((one.peak_samples for one in replays), default=0))
    notes = _note_unseen([one.rule for one in replays])
    return Simulation(start_ms, end_ms, tuple(map(_summarize, replays, notes)))


def _open_replays(groups: Sequence[Group], cache: SampleCache, options: EvaluationOptions) -> list[RuleReplay]:
    """Return a replay for each rule. Its queries see the results of those before it."""
    found: list[RuleReplay] = []
    rules = [(group, rule) for group in groups for rule in group.rules]
    for place, (group, rule) in enumerate(rules):
        earlier = EarlierResults([one.results for one in found if one.is_read])
        is_read = any(_may_read(later, _recorded_names(rule)) for _, later in rules[place + 1 :])
        found.append(RuleReplay(group, rule, Engine(OverlaySource(cache, earlier)), options, is_read))
    return found


def _choose_steps(steps: int, peak: int) -> int:
    """Return the steps of the next part, so that its largest query has about as many samples as allowed.

    >>> _choose_steps(500, 2_000_000), _choose_steps(500, 10)
    (250, 2000)
    """
    growth = min(MAX_GROWTH, PART_SAMPLES / max(peak, 1))
    return max(1, min(MAX_STEPS, int(steps * growth)))


def _recorded_names(rule: Rule) -> set[str]:
    return {ALERTS, ALERTS_FOR_STATE} if rule.is_alert else {rule.name}


def _may_read(rule: Rule, names: set[str]) -> bool:
    """Return whether a selector of a rule can choose series of some names. Templates of labels may query any."""
    if any("query" in text for _, text in rule.labels):
        return True
    for node in walk(parse(rule.expression)):
        if isinstance(node, VectorSelector):
            wanted = [one for one in node.all_matchers if one.name == METRIC_NAME]
            if any(all(one.match_all([name])[0] for one in wanted) for name in names):
                return True
    return False


def _note_unseen(rules: Sequence[Rule]) -> list[str]:
    """Return a note for each rule that reads series that it or a later rule records: it sees those of the lake."""
    notes = []
    for place, rule in enumerate(rules):
        names = sorted({name for later in rules[place:] for name in _recorded_names(later) if _may_read(rule, {name})})
        reads = f"reads {', '.join(names)}, which this or a later rule records: it sees no results of them"
        notes.append(reads if names else "")
    return notes


def _summarize(one: RuleReplay, note: str) -> RuleSimulation:
    return RuleSimulation(
        one.group.name,
        one.rule.name,
        one.rule.kind,
        one.steps,
        one.samples,
        one.periods.close(),
        one.notifications,
        one.failures,
        one.error,
        note,
    )
