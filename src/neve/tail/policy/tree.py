"""Policies as data: a tree whose leaves ask about facts of a trace, about chance, or about a budget.

What a span tells is asked in SQL, once for each span, and kept for its trace as one bit: a `Fact`. What remains for a
trace when its spans are gone is in `neve.tail.policy.traces`. So the tree decides from a few numbers of each trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Semantics(StrEnum):
    """Which reading holds where the collector's documentation and its code differ."""

    DOCUMENTED = "documented"
    OTELCOL = "otelcol"


@dataclass(frozen=True)
class Fact:
    """A question to one span, as a DuckDB expression over the columns of `neve.tail.spans`; never null.

    It is true for a trace when it is true for any of its spans.
    """

    sql: str
    columns: frozenset[str]


@dataclass(frozen=True)
class Node:
    """A policy or a part of one; `name` is what users call it, `kind` the type in the YAML."""

    name: str
    kind: str


@dataclass(frozen=True)
class Always(Node):
    """Samples every trace."""


@dataclass(frozen=True)
class Holds(Node):
    """Samples where a fact holds; `inverted` where it does not."""

    fact: Fact
    inverted: bool = False


@dataclass(frozen=True)
class Latency(Node):
    """`threshold_ms < d`, and with an upper bound `d <= upper_ms`; d is the whole trace's time in whole milliseconds.

    `running` is the collector's reading of an upper bound: after each span, on the minimum and maximum until then.
    """

    threshold_ms: int
    upper_ms: int | None = None
    running: bool = False


@dataclass(frozen=True)
class SpanCount(Node):
    """At least `least` spans, and at most `most` where that is given; both count as within."""

    least: int
    most: int | None = None


@dataclass(frozen=True)
class Probabilistic(Node):
    """FNV-1a-64 of the salt and the trace's id, against a share of all hashes."""

    percentage: float
    salt: str


@dataclass(frozen=True)
class RateLimit(Node):
    """At most so many spans, or bytes, a second."""

    per_second: int
    burst: int
    unit: str = "spans"  # or bytes


@dataclass(frozen=True)
class Dynamic(Node):
    """Keys that are seen often are sampled less, so that about one trace in `goal_rate` is kept in all.

    `key` is the place of its expression in `PolicySet.keys`.
    """

    key: int
    goal_rate: float
    weight: float = 0.5  # of the newest interval, in the moving average
    interval_seconds: int = 15


@dataclass(frozen=True)
class All(Node):
    """`and`: sampled unless one of the parts says no."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Not(Node):
    """Sampled and not sampled, flipped."""

    part: Node


@dataclass(frozen=True)
class Drop(Node):
    """Dropped, whatever other policies say, where all parts pass."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Share:
    """A part of a composite policy and the spans a second that it may keep."""

    part: Node
    per_second: int


@dataclass(frozen=True)
class Composite(Node):
    """The first part, in order, that samples decides: within its share and the total it is kept, otherwise not."""

    total_per_second: int
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class Key:
    """A text for each span, as a DuckDB expression.

    A trace's key is its distinct texts, sorted, one after the other.
    """

    sql: str
    columns: frozenset[str]


@dataclass(frozen=True)
class PolicySet:
    """All policies of a file, as they are to be asked: those that drop stand first."""

    policies: tuple[Node, ...]
    semantics: Semantics = Semantics.DOCUMENTED
    first_match: bool = False
    keys: tuple[Key, ...] = ()
    fingerprint: str = ""  # SHA-256 over what was read and how
    remarks: tuple[str, ...] = ()  # settings that were accepted and mean nothing here, each with why
    facts: tuple[Fact, ...] = field(default=())  # the tree's distinct ones, in order of first use: bit i is facts[i]
    decision_wait_seconds: float | None = None  # how long the file waits for the rest of a trace, where it says so
    after_root_seconds: float | None = None  # and how long after its root
