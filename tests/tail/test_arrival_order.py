"""Decisions that depend on the order in which spans arrive, against those of the OpenTelemetry collector."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.tail.policy.config.loader import read_policies
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import Latency
from neve.tail.span_order import REMARK, UNKNOWN_PLACE, OrderedSpans
from tests.tail.judged import Arrival, Spans
from tests.tail.oracle import arrivals, model

CASES = {case.name: case for case in arrivals.cases()}
RUNS = 5
MS = 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_one_run_decides_as_the_collector(name: str) -> None:
    """Spans of one run, stored in another order and without their repeats, are judged as they arrived."""
    assert _spans(1).dropped > 150
    assert _judge(name, 1) == _recorded(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_several_cycles_decide_as_the_collector(name: str) -> None:
    """Cycles that each see a part of a trace, and repeats of what an earlier one saw, decide as the collector does."""
    assert sum(repeats.num_rows for repeats in _spans(RUNS).repeats) > 100
    assert _judge(name, RUNS) == _recorded(name)


@pytest.mark.long
@pytest.mark.slow
@given(st.lists(st.integers(0, arrivals.MESSAGES), max_size=6).map(sorted), st.integers(1, 3))
@settings(max_examples=10)
def test_any_batches_decide_as_the_collector(cuts: list[int], writes: int) -> None:
    """Wherever the batches and the writes of a batch end, also in empty batches."""
    messages = arrivals.messages()
    ends = list(itertools.pairwise([0, *cuts, len(messages)]))
    runs = [[Arrival(message, run) for message in messages[low:high]] for run, (low, high) in enumerate(ends)]
    spans = Spans.of(runs, writes)
    for name in ("upper-and-count", "count-range", "drop-large", "upper-twice"):
        assert spans.judge(read_policies(CASES[name].body, Semantics.OTELCOL)) == _recorded(name)


def test_the_model_decides_as_the_collector() -> None:
    """The loop of the property test below is the collector, as far as these policies go."""
    for name, case in CASES.items():
        assert model.decide(case.body, arrivals.messages()) == _recorded(name)


@st.composite
def histories(draw: st.DrawFn) -> list[list[Arrival]]:
    """Runs of messages with spans of few traces, many of them repeats, which arrive in any order and at any time."""
    spans = draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 120), st.integers(0, 120)), min_size=1, max_size=8)
    )
    places = st.integers(0, len(spans) - 1)
    sent = draw(st.lists(st.lists(places, min_size=1, max_size=4), min_size=1, max_size=10))
    seconds = draw(st.permutations(range(len(sent))))
    runs: list[list[Arrival]] = [[] for _ in range(4)]
    for second, numbers in zip(seconds, sent, strict=True):
        message = arrivals.build_message([(place, *spans[place]) for place in numbers])
        runs[draw(st.integers(0, 3))].append(Arrival(message, second))
    return runs


@pytest.mark.slow
@given(histories(), st.integers(1, 3), st.sampled_from(sorted(CASES)))
@settings(max_examples=40)
def test_random_arrivals_decide_as_the_collector(runs: list[list[Arrival]], writes: int, name: str) -> None:
    """Repeats in the same message, the same batch and later ones, and batches that are ingested late."""
    came = [one.message for one in sorted(itertools.chain(*runs), key=lambda one: one.second)]
    judged = Spans.of(runs, writes).judge(read_policies(CASES[name].body, Semantics.OTELCOL))
    assert judged == model.decide(CASES[name].body, came)


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
