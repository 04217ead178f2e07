"""Decisions against those of the OpenTelemetry collector on the same spans, which were recorded from its own module."""

from __future__ import annotations

import pytest

from neve.errors import ConfigError
from neve.tail.policy.read import read_policies
from neve.tail.policy.tree import Semantics
from tests.tail.judged import Spans
from tests.tail.oracle import cases as oracle

CASES = {case.name: case for case in oracle.cases()}
ACCEPTED = [name for name in CASES if name not in oracle.refused()]


@pytest.fixture(scope="module")
def spans() -> Spans:
    """The traces that the collector was given."""
    return Spans(oracle.traces())


def test_two_traces_are_not_in_the_table_as_their_spans_have_no_start(spans: Spans) -> None:
    """Two traces are not in the table as their spans have no start."""
    assert len(set(oracle.trace_ids()) - spans.trace_ids) == spans.rejected == 2


@pytest.mark.parametrize("name", ACCEPTED)
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
