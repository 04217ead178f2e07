"""Decisions that depend on the order in which spans arrive, against those of the OpenTelemetry collector."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.tail.policy.config.loader import read_policies
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import Latency
from neve.tail.span_order import REMARK, UNKNOWN_PLACE, OrderedSpans
from tests.tail.judged import Spans
from tests.tail.oracle import arrivals

CASES = {case.name: case for case in arrivals.cases()}
BY_ORDER = sorted(name for name in CASES if name.startswith("upper-") and name != "upper-and-count")
BY_COUNT = sorted(set(CASES) - set(BY_ORDER))
RUNS = 5
MS = 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_one_run_decides_as_the_collector(name: str) -> None:
    """Spans of one run, stored in another order and without their repeats, are judged as they arrived."""
    assert _spans(1).dropped > 150
    assert _judge(name, 1) == _recorded(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_ORDER)
def test_several_cycles_decide_as_the_collector(name: str) -> None:
    """Cycles that each see a part of a trace, in its order, decide as one that sees all of it."""
    assert _judge(name, RUNS) == _recorded(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_COUNT)
def test_repeats_in_later_runs_are_not_counted(name: str) -> None:
    """A count differs from the collector's only for traces with a repeat in a later run, which leaves no trace."""
    judged, recorded = _judge(name, RUNS), _recorded(name)
    differ = {one for one in recorded if judged[one] != recorded[one]}
    assert differ <= _repeated_later()
    assert len(_repeated_later()) < len(recorded)


@pytest.mark.slow
def test_an_unknown_order_is_in_the_reason() -> None:
    """Rows of an older release have no order: the reason says so where the decision depends on it, and only there."""
    policies = read_policies(CASES["upper-20"].body, Semantics.OTELCOL)
    known, unknown = _spans(1).explain(policies), _spans(1).without("arrival_order").explain(policies)
    told = {one for one, (_decision, _policy, reason) in unknown.items() if reason.endswith(REMARK)}
    assert not any(reason.endswith(REMARK) for _decision, _policy, reason in known.values())
    assert 100 < len(told) < len(unknown)
    assert {one: known[one][:2] for one in known if one not in told} == {
        one: unknown[one][:2] for one in known if one not in told
    }


@pytest.mark.slow
def test_documented_semantics_do_not_depend_on_the_order() -> None:
    """By the documentation, the bounds are of the whole trace, and repeats are one span."""
    for name in ("upper-100", "count-min"):
        policies = read_policies(CASES[name].body, Semantics.DOCUMENTED)
        plain = _spans(1).without("arrival_order", "dropped_repeats")
        assert _spans(1).explain(policies) == _spans(RUNS).explain(policies) == plain.explain(policies)


Span = st.tuples(st.integers(0, 9), st.integers(0, 200), st.integers(0, 200))


@given(st.lists(st.lists(Span, min_size=1, max_size=12), min_size=1, max_size=5))
def test_running_durations_are_those_of_a_loop(traces: list[list[tuple[int, int, int]]]) -> None:
    """The arrays give what a loop over the spans of each trace gives."""
    policy = Latency("p", "latency", 50, 100, running=True)
    numbers = [
        [number for place, (at, start, end) in enumerate(trace) for number in (at, place, start * MS, end * MS)]
        for trace in traces
    ]
    ordered = OrderedSpans.of(pa.chunked_array([pa.array(numbers, pa.list_(pa.int64()))]))
    assert ordered.evaluate([policy])[:, 0].tolist() == [_loop(trace, policy) for trace in traces]
    assert not ordered.find_unordered([policy], np.full(len(traces), 9)).any()


def test_one_span_needs_no_order() -> None:
    """A trace of one span, or one that is within the bound at its end, does not depend on the order."""
    policy = Latency("p", "latency", 0, 100, running=True)
    one, short, long = (
        [span for end in ends for span in (7, UNKNOWN_PLACE, 0, end * MS)] for ends in ((500,), (30, 60), (30, 500))
    )
    ordered = OrderedSpans.of(pa.chunked_array([pa.array([one, short, long], pa.list_(pa.int64()))]))
    assert ordered.find_unordered([policy], np.array([1, 2, 2])).tolist() == [False, False, True]


def _loop(trace: list[tuple[int, int, int]], policy: Latency) -> bool:
    """Evaluate the policy after each span, as the collector does."""
    assert policy.upper_ms is not None
    first = last = None
    for _at, _place, start, end in sorted((at, place, start, end) for place, (at, start, end) in enumerate(trace)):
        first, last = min(start, start if first is None else first), max(end, end if last is None else last)
        if policy.threshold_ms < last - first <= policy.upper_ms:
            return True
    return False


@cache
def _spans(runs: int) -> Spans:
    return Spans(arrivals.messages(), runs)


def _judge(name: str, runs: int) -> dict[str, tuple[str, str | None]]:
    return _spans(runs).judge(read_policies(CASES[name].body, Semantics.OTELCOL))


def _recorded(name: str) -> dict[str, tuple[str, str | None]]:
    verdicts = arrivals.decisions().judged[name].verdicts
    return {one: (verdict.decision, verdict.policy or None) for one, verdict in verdicts.items()}


@cache
def _repeated_later() -> set[str]:
    """Return the traces that have a span in two runs."""
    counted = {runs: _count_spans(_spans(runs).rows) for runs in (1, RUNS)}
    return {one for one, count in counted[1].items() if counted[RUNS][one] != count}


def _count_spans(rows: pa.Table) -> dict[str, int]:
    counts: dict[str, int] = {}
    repeats = np.asarray(rows.column("dropped_repeats").fill_null(0))
    for trace_id, more in zip(rows.column("trace_id").to_pylist(), repeats.tolist(), strict=True):
        counts[trace_id.hex()] = counts.get(trace_id.hex(), 0) + 1 + more
    return counts
