"""The policies as they are asked: each question has a number, and each knows which chance or budget it depends on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.tail.policy.tree import (
    All,
    Always,
    Composite,
    Drop,
    Dynamic,
    Holds,
    Latency,
    Not,
    Probabilistic,
    RateLimit,
    SpanCount,
)

if TYPE_CHECKING:
    from neve.tail.policy.tree import Node, PolicySet


@dataclass(frozen=True)
class Limit:
    """A budget: of a rate or byte limit, or of a share of a composite policy."""

    name: str
    per_second: int
    burst: int
    unit: str
    pool: str  # what its counters are kept under: its own path, or that of the composite policy
    share: int | None = None  # its place in the composite policy


@dataclass(frozen=True)
class Question:
    """A leaf: what is asked, where it stands, and for which policy."""

    number: int
    path: str
    policy: int
    asks: Node | Limit
    place: int = 0  # among the facts, or among the running latencies
    negated: bool = False  # under a `not`: its no counts as a yes


@dataclass(frozen=True)
class Ask:
    """The answer to one question."""

    question: Question


@dataclass(frozen=True)
class Every:
    """All parts, asked in order until one says no."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Opposite:
    """The other answer."""

    part: Tree


@dataclass(frozen=True)
class FirstShare:
    """The first part that says yes, and then its budget; no other part is asked after that."""

    path: str
    parts: tuple[Tree, ...]
    budgets: tuple[Question, ...]


Tree = Ask | Every | Opposite | FirstShare


@dataclass(frozen=True)
class Policy:
    """A policy of the file: a tree that says yes or no, and what yes means."""

    node: Node
    tree: Tree
    drops: bool


@dataclass(frozen=True)
class Plan:
    """All policies and all questions, in the order in which they are asked."""

    policies: tuple[Policy, ...]
    questions: tuple[Question, ...]
    first_match: bool

    @property
    def limits(self) -> tuple[Question, ...]:
        """The questions about budgets."""
        return tuple(question for question in self.questions if isinstance(question.asks, Limit))


def plan(policies: PolicySet) -> Plan:
    """The questions of policies, numbered; policies that drop may not stand inside others."""
    numbering = _Numbering(policies)
    planned = tuple(numbering.policy(place, node) for place, node in enumerate(policies.policies))
    return Plan(planned, tuple(numbering.questions), policies.first_match)


@dataclass
class _Numbering:
    policies: PolicySet
    questions: list[Question] = field(default_factory=list)
    running: int = 0
    negated: bool = False
    paths: set[str] = field(default_factory=set)

    def policy(self, place: int, node: Node) -> Policy:
        path = self._path("", node.name)
        if isinstance(node, Drop):
            parts = tuple(self._tree(part, place, path) for part in node.parts)
            return Policy(node, Every(parts), drops=True)
        return Policy(node, self._planned(node, place, path), drops=False)

    def _tree(self, node: Node, policy: int, above: str) -> Tree:
        return self._planned(node, policy, self._path(above, node.name))

    def _planned(self, node: Node, policy: int, path: str) -> Tree:
        match node:
            case All(parts=parts):
                return Every(tuple(self._tree(part, policy, path) for part in parts))
            case Not():
                return self._opposite(node, policy, path)
            case Composite():
                return self._composite(node, policy, path)
            case RateLimit():
                return Ask(self._question(Limit(node.name, node.per_second, node.burst, node.unit, path), policy, path))
            case Always() | SpanCount() | Probabilistic() | Dynamic() | Holds() | Latency():
                return Ask(self._question(node, policy, path))
        raise ConfigError(
            f"policy {path!r} of type {node.kind!r} can't stand here",
            hint="a policy that drops stands by itself, not inside another one",
        )

    def _opposite(self, node: Not, policy: int, path: str) -> Tree:
        self.negated = not self.negated
        part = self._tree(node.part, policy, path)
        self.negated = not self.negated
        return Opposite(part)

    def _composite(self, node: Composite, policy: int, path: str) -> Tree:
        parts, budgets = [], []
        for place, share in enumerate(node.shares):
            part_path = self._path(path, share.part.name)
            parts.append(self._planned(share.part, policy, part_path))
            # the collector holds a share against the total too, each share by itself
            most = min(share.per_second, node.total_per_second)
            limit = Limit(f"{node.name}, part {share.part.name}", most, most, "spans", path, place)
            budgets.append(self._question(limit, policy, self._path(part_path, "share")))
        return FirstShare(path, tuple(parts), tuple(budgets))

    def _question(self, asks: Node | Limit, policy: int, path: str) -> Question:
        place = 0
        if isinstance(asks, Holds):
            place = self.policies.facts.index(asks.fact)
        if isinstance(asks, Latency) and asks.running:
            place, self.running = self.running, self.running + 1
        self.questions.append(Question(len(self.questions), path, policy, asks, place, self.negated))
        return self.questions[-1]

    def _path(self, above: str, name: str) -> str:
        """The names down to a part; a number is added where two would be the same."""
        wanted = path = f"{above}/{name}" if above else name
        count = 1
        while path in self.paths:
            count += 1
            path = f"{wanted}#{count}"
        self.paths.add(path)
        return path
