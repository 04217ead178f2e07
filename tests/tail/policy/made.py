"""Traces and policies for tests of decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from neve.tail.policy.evaluate.batch_evaluator import PolicyEvaluator
from neve.tail.policy.evaluate.limits import LimitState
from neve.tail.policy.evaluate.traces import Traces, derive_randomness
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import All, Composite, Drop, Fact, Holds, Not, PolicySet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.tail.policy.evaluate.verdicts import Verdicts
    from neve.tail.policy.tree import Node

NOON_US = 1_700_049_600_000_000  # 2023-11-15 12:00:00 UTC
SECOND = 1_000_000


def fact(name: str) -> Fact:
    """A question that only tests answer."""
    return Fact(f"{name} = true", frozenset({name}))


FACTS = tuple(map(fact, "abc"))


def holds(name: str, *, inverted: bool = False, called: str = "") -> Holds:
    """A policy that samples where a fact holds."""
    return Holds(called or f"holds-{name}", "string_attribute", fact(name), inverted)


def policy_set(*policies: Node, **options: Any) -> PolicySet:
    """Policies with the facts that they ask about."""
    asked = dict.fromkeys(node.fact for policy in policies for node in walk(policy) if isinstance(node, Holds))
    return PolicySet(policies, facts=tuple(asked), **options)


def walk(node: Node) -> Iterator[Node]:
    """A policy and all its parts."""
    yield node
    match node:
        case All(parts=parts) | Drop(parts=parts):
            below = parts
        case Not(part=part):
            below = (part,)
        case Composite(shares=shares):
            below = tuple(share.part for share in shares)
        case _:
            below = ()
    for part in below:
        yield from walk(part)


def traces(count: int = 1, seed: int = 0, **columns: Any) -> Traces:
    """Traces with random ids, one span each, ready at noon; columns may be a number or one for each."""
    rng = np.random.default_rng(seed)
    ids = columns.pop("ids", None)
    ids = rng.integers(0, 256, (count, 16), dtype=np.uint8) if ids is None else ids
    facts = np.array(columns.pop("facts", np.zeros((len(ids), 3))), dtype=np.bool_)
    running = np.array(columns.pop("running", np.zeros((len(ids), 0))), dtype=np.bool_)
    plain: dict[str, Any] = {"span_count": 1, "bytes": 1, "duration_ms": 0, "ready_us": NOON_US} | columns
    keys = plain.pop("keys", ())
    unsigned: dict[str, Any] = {
        "head_threshold": plain.pop("head_threshold", 0),
        "randomness": plain.pop("randomness", None),
    }
    if unsigned["randomness"] is None:
        unsigned["randomness"] = derive_randomness(ids)
    for numbers, dtype in [(plain, np.int64), (unsigned, np.uint64)]:
        for name, value in numbers.items():
            numbers[name] = np.broadcast_to(np.asarray(value, dtype=dtype), len(ids))
    return Traces(ids=ids, running_latency=running, facts=facts, keys=keys, **plain, **unsigned)


def judged(policies: PolicySet, of: Traces, state: LimitState | None = None, window: int = 60) -> Verdicts:
    """The verdicts alone."""
    return PolicyEvaluator(policies, window).judge(of, state or LimitState())[0]


def decide(of: Traces, *policies: Node, **options: Any) -> list[int]:
    """Only the decisions."""
    decisions: list[int] = judged(policy_set(*policies, **options), of).decision.tolist()
    return decisions


OTELCOL = {"semantics": Semantics.OTELCOL}
