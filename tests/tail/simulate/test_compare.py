"""Two sets of policies on the same traces."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from neve.tail.config import TailConfig
from neve.tail.simulate.simulator import Simulator
from tests.tail.simulate.lakes import (
    DROP,
    ERRORS,
    FEW,
    LATER,
    LIMIT,
    SLOW,
    START,
    Trace,
    policies,
    put,
    selector_of,
    some_traces,
)
from tests.tail.simulate.lakes import decided as decided_by

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.tail.simulate.report import Comparison, DecisionPair, TraceTotals, Volume


def compare(lake: Lake, *sets: object, now: object = LATER, price: float = 4.0) -> Comparison:
    """The comparison of two sets of policies."""
    return Simulator(lake, TailConfig(), price=price, clock=lambda: now).compare(*sets)  # type: ignore[arg-type, return-value]


def turned(move: DecisionPair) -> DecisionPair:
    """The same traces, seen from the other side."""
    return replace(
        move,
        kept_by={"new": "old", "old": "new"}.get(move.kept_by, move.kept_by),
        new_decision=move.old_decision,
        new_policy=move.old_policy,
        old_decision=move.new_decision,
        old_policy=move.new_policy,
    )


def numbers(volume: Volume) -> tuple[float, ...]:
    """A volume as numbers."""
    return (volume.traces, volume.spans, volume.bytes, volume.cost)


def test_a_comparison_is_that_of_the_selectors(lake: Lake, tmp_path: Path) -> None:
    """Trace by trace what two selectors decided, and from the other side the same."""
    put(lake, some_traces(90))
    new, old = policies(SLOW, LIMIT), policies(ERRORS, FEW, DROP)
    kept = []
    for name, stated in (("one", new), ("two", old)):
        selector_of(lake, tmp_path, stated, name=name).run()
        rows = decided_by(lake, name)
        kept.append({trace for trace, row in rows.items() if row["decision"] == "sampled"})
    spans = {(trace.owner, trace.id): trace.spans for trace in some_traces(90)}
    errors = {(trace.owner, trace.id) for trace in some_traces(90) if trace.error}

    def fate(traces: set[tuple[str, bytes]]) -> tuple[int, int, int]:
        return len(traces), sum(spans[trace] for trace in traces), len(traces & errors)

    def told_fate(one: TraceTotals) -> tuple[int, int, int]:
        return one.traces, one.spans, one.errors

    told, other = compare(lake, new, old), compare(lake, old, new)
    one, two = kept
    assert told_fate(told.both) == fate(one & two)
    assert told_fate(told.only_new) == fate(one - two)
    assert told_fate(told.only_old) == fate(two - one)
    assert told_fate(told.neither) == fate(set(spans) - one - two)
    assert (told.compared, told.left_out) == (90, 0)

    assert (other.both, other.neither) == (told.both, told.neither)
    assert (other.only_new, other.only_old) == (told.only_old, told.only_new)
    assert set(map(turned, other.moves)) == set(told.moves)
    assert (other.errors_gained, other.errors_lost) == (told.errors_lost, told.errors_gained)
    assert numbers(other.difference) == pytest.approx([-number for number in numbers(told.difference)])
    assert told.difference.traces == told.new.kept.traces - told.old.kept.traces
    assert told.difference.cost == pytest.approx(told.new.kept.cost - told.old.kept.cost)
    assert sum(group.traces for group in told.errors_lost) == told.only_old.errors


def test_the_same_policies_do_not_differ(lake: Lake) -> None:
    """Nothing moves."""
    put(lake, some_traces(60))
    told = compare(lake, policies(SLOW, LIMIT), policies(SLOW, LIMIT))
    assert (told.only_new.traces, told.only_old.traces) == (0, 0)
    assert numbers(told.difference) == (0, 0, 0, 0)
    assert all(move.new_policy == move.old_policy for move in told.moves)
    assert told.new.kept == told.old.kept


def test_traces_that_are_complete_for_one_only_are_left_out(lake: Lake) -> None:
    """A limit waits for the end of a window: the traces of the last one are not compared, and that is said."""
    put(lake, [Trace(1), Trace(2, seconds=50)], START - timedelta(seconds=10))
    now = START + timedelta(seconds=330)
    put(lake, [Trace(3)], now - timedelta(seconds=310))
    told = compare(lake, policies(SLOW), policies(LIMIT), now=now)
    assert (told.new.before.traces, told.old.before.traces) == (3, 2)
    assert (told.compared, told.left_out) == (2, 1)
