"""Policies asked of one trace after the other, as plainly as can be: what `judge` must agree with.

Nothing here uses the code that it checks, but for the words of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import All, Always, Composite, Drop, Holds, Latency, Not, Probabilistic, RateLimit, SpanCount

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.tail.policy.tree import Node, PolicySet

WORDS = {True: 1, False: 0}


@dataclass(frozen=True)
class Trace:
    """What is known of a trace."""

    id: bytes
    spans: int
    bytes: int
    duration_ms: int
    facts: frozenset[str]  # the SQL of those that hold
    ready_us: int
    randomness: int


class Unsettled(Exception):
    """Raised when a trace reaches a limit that is not shared out yet."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


def plain_hash(salt: str, id_bytes: bytes) -> int:
    """FNV-1a of 64 bits."""
    value = 14695981039346656037
    for byte in (salt or "default-hash-seed").encode() + id_bytes:
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


@dataclass
class TokenBucket:
    """A bucket of tokens, which starts full."""

    rate: int
    burst: int
    tokens: float = field(init=False)
    last: int | None = None

    def __post_init__(self) -> None:
        self.tokens = float(self.burst)

    def allows(self, size: int, now: int) -> bool:
        """Whether so many tokens are there; then they are taken."""
        available = self.tokens
        if self.last is not None:
            whole, part = divmod(max(0, now - self.last), 1_000_000)
            available = min(self.tokens + (whole + part * 1000 / 1e9) * self.rate, float(self.burst))
        lack = size - available
        waits = 0 if lack <= 0 else (int(lack / self.rate * 1e9) if self.rate else 1)
        if size > self.burst or waits > 0:
            return False
        self.tokens, self.last = available - size, now
        return True


@dataclass
class Interpreter:
    """Asks policies; `limits` numbers every budget in the order of the tree."""

    policies: PolicySet
    window_us: int
    buckets: dict[int, TokenBucket] = field(default_factory=dict)
    seconds: dict[tuple[int, int], tuple[int, dict[int, int]]] = field(default_factory=dict)
    settled: dict[int, set[bytes]] = field(default_factory=dict)  # who passed each budget

    def decide(self, traces: list[Trace]) -> list[int]:
        """The decision for each trace."""
        if self.policies.semantics is Semantics.DOCUMENTED:
            for place, budget in enumerate(self._budgets()):
                self._settle(place, budget, traces)
        return [self._trace(trace) for trace in traces]

    def _budgets(self) -> list[tuple[int, str]]:
        """What each limit has for a second, in the order in which they are asked."""
        found: list[tuple[int, str]] = []

        def visit(node: Node) -> None:
            match node:
                case RateLimit():
                    found.append((node.per_second, node.unit))
                case All(parts=parts) | Drop(parts=parts):
                    for part in parts:
                        visit(part)
                case Not(part=part):
                    visit(part)
                case Composite():
                    for share in node.shares:
                        visit(share.part)
                        found.append((min(share.per_second, node.total_per_second), "spans"))

        for policy in self.policies.policies:
            visit(policy)
        return found

    def _settle(self, place: int, budget: tuple[int, str], traces: list[Trace]) -> None:
        per_second, unit = budget
        reached = []
        for trace in traces:
            try:
                self._trace(trace)
            except Unsettled as asked:
                if asked.place == place:
                    reached.append(trace)
        passed: set[bytes] = set()
        whole = per_second * self.window_us // 1_000_000
        for window in {trace.ready_us // self.window_us for trace in reached}:
            left = whole
            here = [t for t in reached if t.ready_us // self.window_us == window and size(t, unit) <= whole]
            for trace in sorted(here, key=lambda t: -t.randomness):
                if size(trace, unit) > left:
                    passed -= {t.id for t in here if t.randomness == trace.randomness}
                    break
                left -= size(trace, unit)
                passed.add(trace.id)
        self.settled[place] = passed

    def _trace(self, trace: Trace) -> int:
        self._place = 0
        sampled = False
        for policy in self.policies.policies:
            if isinstance(policy, Drop):
                if self._every(policy.parts, trace):
                    return -1
            elif self._ask(policy, trace):
                sampled = True
                if self.policies.first_match:
                    return 1
        return WORDS[sampled]

    def _ask(self, node: Node, trace: Trace) -> bool:  # noqa: PLR0911, one for each kind
        match node:
            case Always():
                return True
            case Holds(fact=fact, inverted=inverted):
                return (fact.sql in trace.facts) != inverted
            case Latency(threshold_ms=least, upper_ms=most):
                return least < trace.duration_ms and (most is None or trace.duration_ms <= most)
            case SpanCount(least=least, most=most):
                return least <= trace.spans and (most is None or trace.spans <= most)
            case Probabilistic(percentage=percentage, salt=salt):
                return plain_hash(salt, trace.id) / 2**64 <= percentage / 100
            case RateLimit():
                return self._bucket(node, trace)
            case All(parts=parts):
                return self._every(parts, trace)
            case Not(part=part):
                return not self._ask(part, trace)
            case Composite():
                return self._composite(node, trace)
        raise AssertionError(node)

    def _every(self, parts: tuple[Node, ...], trace: Trace) -> bool:
        answer = True
        for part in parts:
            answer = self._skipping(answer, part, trace, self._ask)
        return answer

    def _skipping(self, asked: bool, node: Node, trace: Trace, ask: Callable[[Node, Trace], bool]) -> bool:
        """An answer, or no where it is not asked; the numbers of limits go on all the same."""
        if asked:
            return ask(node, trace)
        self._place += len(Interpreter(type(self.policies)((node,)), 1)._budgets())
        return False

    def _next(self) -> int:
        self._place += 1
        return self._place - 1

    def _bucket(self, node: RateLimit, trace: Trace) -> bool:
        place = self._next()
        if self.policies.semantics is Semantics.DOCUMENTED:
            return self._passed(place, trace)
        bucket = self.buckets.setdefault(place, TokenBucket(node.per_second, node.burst))
        return bucket.allows(size(trace, node.unit), trace.ready_us)

    def _composite(self, node: Composite, trace: Trace) -> bool:
        start, second = (self._place, id(node)), trace.ready_us // 1_000_000
        at, used = self.seconds.get(start, (None, {}))
        if at != second:
            used = {}
            self.seconds[start] = (second, used)
        kept = False
        left = True
        for number, share in enumerate(node.shares):
            reached = self._skipping(left, share.part, trace, self._ask)
            place = self._next()
            if reached:
                left = False
                most = min(share.per_second, node.total_per_second)
                if self.policies.semantics is Semantics.DOCUMENTED:
                    kept = self._passed(place, trace)
                elif used.get(number, 0) + trace.spans <= most:
                    used[number] = used.get(number, 0) + trace.spans
                    kept = True
        return kept

    def _passed(self, place: int, trace: Trace) -> bool:
        if place not in self.settled:
            raise Unsettled(place)
        return trace.id in self.settled[place]


def size(trace: Trace, unit: str) -> int:
    """What a limit counts."""
    return trace.bytes if unit == "bytes" else trace.spans
