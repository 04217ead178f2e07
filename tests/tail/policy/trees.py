"""Random policies and traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import (
    All,
    Always,
    Composite,
    Drop,
    Dynamic,
    Latency,
    Not,
    Probabilistic,
    RateLimit,
    Share,
    SpanCount,
)
from tests.tail.policy.interpreter import Trace
from tests.tail.policy.made import NOON_US, SECOND, fact, holds, traces, walk

if TYPE_CHECKING:
    from neve.tail.policy.evaluate.traces import Traces
    from neve.tail.policy.tree import Node, PolicySet

FACTUAL = st.one_of(
    st.builds(lambda name, inverted: holds(name, inverted=inverted), st.sampled_from("abc"), st.booleans()),
    st.sampled_from(
        [Latency("slow", "latency", 50), Latency("band", "latency", 20, 70), SpanCount("few", "span_count", 2, 5)]
    ),
)
PERCENTAGES = st.builds(
    lambda percentage, salt: Probabilistic(f"hash-{percentage}", "probabilistic", percentage, salt),
    st.sampled_from([0.0, 10.0, 30.0, 50.0, 85.0, 100.0]),
    st.sampled_from(["", "salt"]),
)
LIMITS = st.builds(
    lambda per_second, burst, unit: RateLimit(f"limit-{per_second}", "rate_limiting", per_second, burst, unit),
    st.integers(0, 12),
    st.integers(0, 20),
    st.sampled_from(["spans", "bytes"]),
)


def composites(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Composite policies with shares that may be more than the total."""
    shares = st.lists(st.builds(Share, parts, st.integers(0, 10)), min_size=1, max_size=3).map(tuple)
    return st.builds(lambda total, of: Composite("composite", "composite", total, of), st.integers(0, 10), shares)


def nested(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Policies of parts."""
    several = st.lists(parts, min_size=0, max_size=3).map(tuple)
    return st.one_of(
        st.builds(lambda of: All("and", "and", of), several),
        st.builds(lambda of: Not("not", "not", of), parts),
        composites(parts),
    )


TREES = st.recursive(
    st.one_of(FACTUAL, PERCENTAGES, LIMITS, st.just(Always("all", "always_sample"))), nested, max_leaves=6
)
DROPS = st.builds(lambda of: Drop("drop", "drop", tuple(of)), st.lists(TREES, min_size=1, max_size=2))
POLICIES = st.lists(st.one_of(TREES, TREES, TREES, DROPS), min_size=1, max_size=4)


def cases(policies: PolicySet) -> int:
    """From at most how many cases a probability is added up."""
    salts, pools, drawn = set(), 1, 1
    for policy in policies.policies:
        for node in walk(policy):
            parts = len(node.shares) if isinstance(node, Composite) else int(isinstance(node, RateLimit | Dynamic))
            pools, drawn = pools * (parts + 1), drawn + parts
            salts |= {(node.salt, node.percentage)} if isinstance(node, Probabilistic) else set()
    return int(2 ** len(salts)) * (pools if policies.semantics is Semantics.OTELCOL else drawn)


def random_traces(count_of: int, seed: int, *, coarse: bool = False, seconds: int = 30) -> Traces:
    """Traces over some seconds; `coarse` ones draw few different random numbers."""
    rng = np.random.default_rng(seed)
    ids = np.concatenate([rng.integers(0, 256, (count_of, 15)), np.arange(count_of)[:, None] % 256], axis=1)
    columns: dict[str, Any] = {
        "span_count": rng.integers(1, 9, count_of),
        "bytes": rng.integers(1, 9, count_of),
        "duration_ms": rng.integers(0, 100, count_of),
        "ready_us": np.sort(NOON_US + rng.integers(0, seconds * SECOND, count_of)),
    }
    drawn = rng.integers(0, 6, count_of).astype(np.uint64) << np.uint64(50) if coarse else None
    return traces(ids=ids.astype(np.uint8), facts=rng.random((count_of, 3)) < 0.4, randomness=drawn, **columns)


def one_by_one(of: Traces, facts: str) -> list[Trace]:
    """Traces as the interpreter wants them; `facts` names the columns."""
    names = [fact(name).sql for name in facts]
    return [
        Trace(
            id=of.ids[place].tobytes(),
            spans=int(of.span_count[place]),
            bytes=int(of.bytes[place]),
            duration_ms=int(of.duration_ms[place]),
            facts=frozenset(name for name, holds_here in zip(names, of.facts[place], strict=True) if holds_here),
            ready_us=int(of.ready_us[place]),
            randomness=int(of.randomness[place]),
        )
        for place in range(len(of))
    ]
