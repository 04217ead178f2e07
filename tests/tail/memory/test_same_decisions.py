"""A selector in memory decides what a selector on a lake decides, from the same spans at the same times."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from neve.tail.policy.config.loader import read_policies
from neve.tail.policy.semantics import Semantics
from tests.tail.lakes import ACME, OTHER, Desk, Span, put, tail_lake
from tests.tail.memory import feeds
from tests.tail.memory.policy_sets import policy_set

if TYPE_CHECKING:
    from pathlib import Path

    from neve.tail.policy.tree import PolicySet

OF_THE_SOURCE = {"source", "source_snapshot_id", "previous_snapshot_id"}
SETTINGS = {"inactivity_seconds": 60, "max_duration_seconds": 200, "late_seconds": 500, "trace_ttl_seconds": 1000}
MOMENTS = (61, 150, 260, 700)


def spans_until(chance: random.Random, begin: float, end: float, traces: int) -> list[Span]:
    """Spans that arrive between two moments, of a few traces: many of them late."""
    found = []
    for number in range(traces * 2):
        at = chance.uniform(max(0, begin - 5), end - 6)
        trace = chance.randrange(traces)
        attributes = {"user": f"u{chance.randrange(9)}", "size": str(chance.randrange(9)), "flag": "true"}
        found.append(
            Span(
                trace,
                round(begin) * 1000 + number,
                at=at,
                seconds=chance.choice((0.05, 0.3, 0.9)),
                arrived=max(begin, at + 1),
                error=chance.random() < 0.06,
                root=chance.random() < 0.2,
                service=chance.choice(("cart", "pay", "ship")),
                organization=OTHER if trace % 5 == 0 else ACME,
                attributes=dict(chance.sample(sorted(attributes.items()), 2)),
            )
        )
    return found


def said(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Decisions without what names their source."""
    plain = [{name: value for name, value in row.items() if name not in OF_THE_SOURCE} for row in rows]
    return sorted(
        plain, key=lambda row: (row["selector"], row["cycle"], row["organization_id"], row["trace_id"], row["revision"])
    )


def policies_of(seed: int, semantics: Semantics, *, limited: bool) -> PolicySet:
    """Random policies."""
    document = {"policies": policy_set(random.Random(seed), limited=limited), "sample_on_first_match": seed % 3 == 0}
    return read_policies(document, semantics)


CASES: tuple[tuple[Semantics, bool, dict[str, Any]], ...] = (
    (Semantics.DOCUMENTED, False, {}),
    (Semantics.DOCUMENTED, True, {"late_seconds": 300}),
    (Semantics.OTELCOL, True, {"after_root_seconds": 30}),
    (Semantics.DOCUMENTED, True, {"window_seconds": 30, "clock": "event"}),
)


@pytest.mark.long
def test_decisions_equal(tmp_path: Path) -> None:
    """Every column of every decision: kinds, policies, reasons, counts, thresholds and revisions."""
    lake, chance, before = tail_lake(tmp_path), random.Random(5), 0.0
    pairs = []
    for seed, (semantics, limited, changes) in enumerate(CASES, 78):
        policies, settings = policies_of(seed, semantics, limited=limited), {**SETTINGS, **changes, "name": f"s{seed}"}
        pairs.append((Desk(lake, tmp_path, policies), feeds.Desk(policies, **settings)))
        pairs[-1][0].set(**settings)
    for moment in MOMENTS:
        if moment != MOMENTS[2]:  # a cycle without news among them
            spans = spans_until(chance, before, moment, 60)
            put(lake, spans)
            for _on_lake, in_memory in pairs:
                in_memory.feed(spans[:50])
                in_memory.feed(spans[50:])
        for on_lake, in_memory in pairs:
            theirs, ours = on_lake.run(moment), in_memory.run(moment)
            assert (ours.cycle, ours.committed, ours.open) == (theirs.cycle, theirs.committed, theirs.open)
            assert ours.policies == theirs.policies
            assert ours.estimated_traces == pytest.approx(theirs.estimated_traces)
        before = moment
    decided = said(pairs[0][0].decisions())
    assert said([row for _on_lake, in_memory in pairs for row in in_memory.decisions()]) == decided
    assert {row["kind"] for row in decided} == {"decided", "late", "revised"}
    assert {row["decision"] for row in decided} == {"sampled", "not_sampled", "dropped"}
    assert any(row["adjusted_count"] > 1 for row in decided)
