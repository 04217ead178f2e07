"""Decisions against those of the OpenTelemetry collector on the same spans, which were recorded from its own module."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from neve.errors import ConfigError
from neve.model.signals import Signal
from neve.otlp.json import to_protobuf
from neve.tail.policy.config.loader import read_policies
from neve.tail.policy.semantics import Semantics
from tests.each_time import each_time
from tests.tail.judged import Spans
from tests.tail.oracle import cases as oracle
from tests.tail.oracle import real

if TYPE_CHECKING:
    from pathlib import Path

CASES = {case.name: case for case in oracle.cases()}
ACCEPTED = [name for name in CASES if name not in oracle.refused()]


@pytest.fixture(scope="module")
def spans() -> Spans:
    """The traces that the collector was given."""
    return Spans(oracle.traces())


def test_two_traces_are_not_in_the_table_as_their_spans_have_no_start(spans: Spans) -> None:
    """Two traces are not in the table as their spans have no start."""
    assert len(set(oracle.trace_ids()) - spans.trace_ids) == spans.rejected == 2


@pytest.mark.parametrize("name", each_time([(name, name) for name in ACCEPTED], one_in=5))
def test_decisions_are_those_of_the_collector(spans: Spans, name: str) -> None:
    """Decisions are those of the collector."""
    case = CASES[name]
    judged = spans.judge(read_policies(case.body, Semantics.OTELCOL))
    compared = oracle.comparable(case) & spans.trace_ids
    expected = {trace_id: verdict for trace_id, verdict in _recorded(name).items() if trace_id in compared}

    assert len(expected) > 200
    assert {trace_id: judged[trace_id][0] for trace_id in expected} == {
        trace_id: decision for trace_id, (decision, _policy) in expected.items()
    }
    assert {one: judged[one][1] for one in expected if expected[one][1]} == {
        one: policy for one, (_decision, policy) in expected.items() if policy
    }


@pytest.mark.parametrize("name", oracle.refused())
def test_what_the_collector_refuses_is_refused(name: str) -> None:
    """What the collector refuses is refused."""
    with pytest.raises(ConfigError):
        read_policies(CASES[name].body, Semantics.OTELCOL)


def _recorded(name: str) -> dict[str, tuple[str, str | None]]:
    verdicts = oracle.decisions().judged[name].verdicts
    return {one: (verdict.decision, verdict.policy or None) for one, verdict in verdicts.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", [case.name for case in real.cases()])
def test_decisions_on_real_traces_are_those_of_the_collector(shared_data: Path, name: str) -> None:
    """1,882 traces of a real system, whose spans came in several messages."""
    assert shared_data.is_dir()
    case = next(case for case in real.cases() if case.name == name)
    judged = _real_spans().judge(read_policies(case.body, Semantics.OTELCOL))
    recorded = {one: verdict.decision for one, verdict in real.decisions().judged[name].verdicts.items()}
    assert len(recorded) > 1500
    assert {one: judged[one][0] for one in recorded} == recorded


@cache
def _real_spans() -> Spans:
    return Spans(to_protobuf(Signal.TRACES, b"\n".join(real.lines())).messages.to_pylist())
