"""Random histories: cycles that read what is new decide as one who always looks at everything would."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tail.lakes import Desk, Span, put, tail_lake

INACTIVE, LONGEST, FORGOTTEN = 300, 3600, 7200
TOLD = ("kind", "decision", "policy", "span_count")
TIMES = st.integers(0, 5000).map(float)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[float, list[Span]]]:
    """Commits of spans, and the moments at which a cycle runs after each."""
    moments = sorted(draw(st.lists(TIMES, min_size=2, max_size=5, unique=True)))
    history, number = [], 0
    for moment in moments:
        spans = []
        for _ in range(draw(st.integers(0, 6))):
            number += 1
            at = draw(st.floats(0, moment).map(lambda value: round(value, 1)))
            seconds = draw(st.sampled_from((0.0, 0.2, 2.0)))
            spans.append(
                Span(
                    trace=draw(st.integers(0, 4)),
                    number=number,
                    at=at,
                    seconds=seconds,
                    arrived=draw(st.floats(at, moment).map(lambda value: round(value, 1))),
                    error=draw(st.booleans()) and draw(st.booleans()),
                    organization=draw(st.sampled_from(("acme", "globex"))),
                )
            )
        history.append((moment, spans))
    return [*history, (20_000.0, [])]


@dataclass
class Reference:
    """Looks at everything, every time; shares no code with the product."""

    seen: dict[tuple[str, int], list[Span]] = field(default_factory=dict)
    decided: dict[tuple[str, int], tuple[str, float, int]] = field(default_factory=dict)
    rows: list[tuple[str, int, str, str, str | None, int]] = field(default_factory=list)

    def cycle(self, now: float, new: list[Span]) -> None:
        """What a cycle at a moment decides, with some spans that are new."""
        touched = {(span.organization, span.trace) for span in new}
        for span in new:
            self.seen.setdefault((span.organization, span.trace), []).append(span)
        for key, spans in sorted(self.seen.items()):
            known = self.decided.get(key)
            if known is None:
                arrived = [_arrived(span) for span in spans]
                if min(max(arrived) + INACTIVE, min(arrived) + LONGEST) <= now:
                    self._decide(key, now, spans, "decided")
            elif key in touched:
                decision = known[0]
                if decision != "sampled" and _policy(spans):
                    self._decide(key, now, spans, "revised")
                else:
                    policy = self._policy_of(key)
                    self.rows.append((*key, "late", decision, policy, len(spans)))

    def _decide(self, key: tuple[str, int], now: float, spans: list[Span], kind: str) -> None:
        policy = _policy(spans)
        decision = "sampled" if policy else "not_sampled"
        self.decided[key] = decision, now, len(spans)
        self.rows.append((*key, kind, decision, policy, len(spans)))

    def _policy_of(self, key: tuple[str, int]) -> str | None:
        return next(row[4] for row in reversed(self.rows) if row[:2] == key)


def _arrived(span: Span) -> float:
    return span.at + span.seconds if span.arrived is None else span.arrived


def _policy(spans: list[Span]) -> str | None:
    if any(span.error for span in spans):
        return "errors"
    first, last = min(span.at for span in spans), max(span.at + span.seconds for span in spans)
    return "slow" if int(round((last - first) * 10**9) / 10**6) > 1000 else None


@pytest.mark.lake
@settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(histories())
def test_cycles_decide_like_one_who_looks_at_everything(history: list[tuple[float, list[Span]]]) -> None:
    """Cycles decide like one who looks at everything."""
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(tail_lake(Path(folder)), Path(folder))
        desk.set(late_seconds=100_000)
        reference = Reference()
        for moment, spans in history:
            if spans:
                put(desk.lake, spans)
            desk.run(at=moment)
            reference.cycle(moment, spans)
        numbers = {Span(number).trace_id: number for number in range(5)}
        found = [
            (row["organization_id"], numbers[row["trace_id"]], *(row[name] for name in TOLD))
            for row in desk.decisions()
        ]
        assert sorted(found, key=repr) == sorted(reference.rows, key=repr)
        assert desk.open() == []


@pytest.mark.lake
def test_a_trace_of_one_id_in_two_organizations_is_two() -> None:
    """What is open in the one does not make the other forget what it decided."""
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(tail_lake(Path(folder)), Path(folder))
        put(desk.lake, [Span(1, number=1, at=0, seconds=2, arrived=2, organization="globex")])
        desk.run(at=400)
        put(desk.lake, [Span(1, number=2, at=400, arrived=400, organization="acme")])
        desk.run(at=410)
        put(desk.lake, [Span(1, number=3, at=405, arrived=420, error=True, organization="globex")])
        desk.run(at=430)
        told = [(row["organization_id"], row["kind"], row["span_count"]) for row in desk.decisions()]
    assert told == [("globex", "decided", 1), ("globex", "late", 2)]
