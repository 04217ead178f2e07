"""Policies: a tree whose leaves test facts of a trace, chance, or a budget. One class defines one type of policy.

Conditions on spans are evaluated in SQL, once for each span, and kept for the trace as one bit: a `Fact`. The tree
decides from these bits and a few numbers of each trace (`neve.tail.policy.evaluate.traces`). A leaf that needs nothing
else has its test here, and the sentences that explain the answer. Chance and budgets have a state, so their answers are
in `neve.tail.policy.evaluate`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from neve.tail.policy.semantics import Semantics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.tail.policy.evaluate.traces import Bools, Integers, Traces

DEFAULT_SALT = "default-hash-seed"  # of the collector, for an empty salt
Sentence: TypeAlias = "tuple[str | Integers, ...]"  # pieces: texts, and numbers with one place for each trace


@dataclass(frozen=True)
class Fact:
    """Test of one span, as a DuckDB expression over the columns of `neve.tail.column_mapping` that is never null.

    It is true for a trace if it is true for any of its spans.
    """

    sql: str
    columns: frozenset[str]


@dataclass(frozen=True)
class Node:
    """Policy or part of one, with the user's `name` and the `kind` as the type in the YAML."""

    name: str
    kind: str

    @property
    def children(self) -> tuple[Node, ...]:
        """Nodes directly under this one, in order."""
        return ()

    def walk(self) -> Iterator[Node]:
        """Yield this node and all nodes under it, in the order of evaluation."""
        yield self
        for child in self.children:
            yield from child.walk()

    def explain(self, traces: Traces, sampled: bool) -> Sentence:
        """Return why this node samples traces or does not, as pieces of a sentence."""
        return (f"its {self.kind} matches" if sampled else f"its {self.kind} does not match",)


@dataclass(frozen=True)
class FactNode(Node):
    """Leaf that is decided by the trace alone: no chance, no other traces."""

    def test(self, traces: Traces, place: int) -> Bools:
        """Return which traces it samples; `place` is that of its bit in `Traces`, if it has one."""
        raise NotImplementedError


@dataclass(frozen=True)
class Always(FactNode):
    """Policy that samples every trace."""

    def test(self, traces: Traces, place: int) -> Bools:
        """Return true for each trace."""
        return traces.everywhere

    def explain(self, traces: Traces, sampled: bool) -> Sentence:
        """Explain the answer."""
        return ("it samples every trace",) if sampled else super().explain(traces, sampled)


@dataclass(frozen=True)
class Holds(FactNode):
    """Policy that samples if a fact is true, or if it is false with `inverted`."""

    fact: Fact
    inverted: bool = False

    def test(self, traces: Traces, place: int) -> Bools:
        """Return which traces have the fact, or do not have it."""
        return ~traces.facts[:, place] if self.inverted else traces.facts[:, place]

    def explain(self, traces: Traces, sampled: bool) -> Sentence:
        """Explain the answer."""
        return (f"{'no' if self.inverted == sampled else 'a'} span matches its {self.kind}",)


@dataclass(frozen=True)
class Latency(FactNode):
    """Policy that samples `threshold_ms < d`, and `d <= upper_ms` if given, where d is the duration in milliseconds.

    d is of the whole trace, in whole milliseconds. `running` is the collector's interpretation of an upper bound: after
    each span, on the minimum and maximum until then.
    """

    threshold_ms: int
    upper_ms: int | None = None
    running: bool = False

    def test(self, traces: Traces, place: int) -> Bools:
        """Return which traces are within the bounds."""
        if self.running:
            return traces.running_latency[:, place]
        return _is_within(traces.duration_ms, self.threshold_ms + 1, self.upper_ms)

    def explain(self, traces: Traces, sampled: bool) -> Sentence:
        """Explain the answer."""
        bounds = f"over {self.threshold_ms:,} ms"
        bounds += "" if self.upper_ms is None else f" and at most {self.upper_ms:,} ms"
        if self.running:
            return (f"after {'one' if sampled else 'none'} of its spans it was {bounds}",)
        return traces.duration_ms, f" ms is {'' if sampled else 'not '}{bounds}"


@dataclass(frozen=True)
class SpanCount(FactNode):
    """Policy that samples at least `least` spans, and at most `most` if given, both inclusive."""

    least: int
    most: int | None = None

    def test(self, traces: Traces, place: int) -> Bools:
        """Return which traces have that many spans."""
        return _is_within(traces.span_count, self.least, self.most)

    def explain(self, traces: Traces, sampled: bool) -> Sentence:
        """Explain the answer."""
        bounds = f"at least {self.least:,}" + ("" if self.most is None else f" and at most {self.most:,}")
        return traces.span_count, f" spans, {'' if sampled else 'not '}{bounds}"


def _is_within(values: Integers, least: int, most: int | None) -> Bools:
    enough: Bools = values >= least
    return enough if most is None else enough & (values <= most)


@dataclass(frozen=True)
class Probabilistic(Node):
    """Policy that compares FNV-1a-64 of the salt and the trace id with a share of all hashes."""

    percentage: float
    salt: str

    def explain(self, traces: Traces, sampled: bool) -> Sentence:
        """Explain the answer."""
        return (f"its hash is {'' if sampled else 'not '}within {self.percentage:g} %",)


@dataclass(frozen=True)
class RateLimit(Node):
    """Policy that samples up to a number of spans or bytes per second."""

    per_second: int
    burst: int
    unit: str = "spans"  # or bytes

    def explain(self, traces: Traces, sampled: bool) -> Sentence:
        """Explain why a trace does not fit; why one fits depends on the others in its window."""
        if sampled:
            return super().explain(traces, sampled)
        budget = f"{self.name}, {self.per_second:,} {self.unit} a second"
        return "its ", traces.sizes(self.unit), f" {self.unit} do not fit {budget}"


@dataclass(frozen=True)
class Dynamic(Node):
    """Policy that samples frequent keys less, so that about one trace in `goal_rate` is kept overall.

    `key` is the place of its expression in `PolicySet.keys`.
    """

    key: int
    goal_rate: float
    weight: float = 0.5  # of the newest interval, in the moving average
    interval_seconds: int = 15

    def explain(self, traces: Traces, sampled: bool) -> Sentence:
        """Explain why a trace is not sampled; the rate of its key is that of its interval."""
        return super().explain(traces, sampled) if sampled else ("its key is too frequent",)


@dataclass(frozen=True)
class All(Node):
    """Policy `and`, which samples unless one of the parts says no."""

    parts: tuple[Node, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        """The parts."""
        return self.parts


@dataclass(frozen=True)
class Not(Node):
    """Policy that inverts sampled and not sampled."""

    part: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """The negated part."""
        return (self.part,)


@dataclass(frozen=True)
class Drop(All):
    """Policy that drops a trace if all parts pass, whatever other policies say."""


@dataclass(frozen=True)
class Share:
    """Part of a composite policy, and its budget in spans per second."""

    part: Node
    per_second: int


@dataclass(frozen=True)
class Composite(Node):
    """Policy in which the first part that samples decides: kept within its share and the total, otherwise not."""

    total_per_second: int
    shares: tuple[Share, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        """The parts, without their budgets."""
        return tuple(share.part for share in self.shares)

    def budget(self, place: int) -> RateLimit:
        """Return the limit of a part, which is not above the total."""
        share = self.shares[place]
        # The collector also compares a share with the total, each share separately.
        most = min(share.per_second, self.total_per_second)
        return RateLimit(f"{self.name}, part {share.part.name}", "share", most, most)


@dataclass(frozen=True)
class Key:
    """Text for each span, as a DuckDB expression.

    The key of a trace is the concatenation of its distinct texts, sorted.
    """

    sql: str
    columns: frozenset[str]


@dataclass(frozen=True)
class PolicySet:
    """All policies of a file in the order of evaluation, in which policies that drop are first."""

    policies: tuple[Node, ...]
    semantics: Semantics = Semantics.DOCUMENTED
    first_match: bool = False
    keys: tuple[Key, ...] = ()
    fingerprint: str = ""  # SHA-256 over the policies and their interpretation
    remarks: tuple[str, ...] = ()  # accepted settings without effect, each with the reason
    facts: tuple[Fact, ...] = field(default=())  # distinct facts of the tree, in order of first use: bit i is facts[i]
    decision_wait_seconds: float | None = None  # wait of the file for the rest of a trace, if set
    after_root_seconds: float | None = None  # and its wait after the root, if set

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of all policies, in the order of evaluation."""
        return tuple(node for policy in self.policies for node in policy.walk())
