"""Evaluation plan of a policy set: the parts of the tree with numbered answers, and the one walk over them.

`PolicyWalk` is the only place that knows what `and`, `not`, `drop` and `composite` mean. Its subclasses answer the
leaves: from traces and budgets (`neve.tail.policy.evaluate.batch_evaluator`), or from given answers, for the
probability of a decision (`neve.tail.policy.evaluate.probability`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from neve.errors import ConfigError
from neve.tail.policy.tree import All, Composite, Drop, Holds, Latency, Not, RateLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from neve.tail.policy.evaluate.traces import Bools
    from neve.tail.policy.tree import Node, PolicySet


A = TypeVar("A", "Bools", "Bools | np.bool_")  # answers: one for each trace, or one for all where they are the same


@dataclass(frozen=True)
class Part:
    """Node of the tree at its place, because equal nodes may be at several places."""

    node: Node
    path: str
    policy: int
    parts: tuple[Part, ...] = ()
    budgets: tuple[Part, ...] = ()  # limits of a composite policy, one for each of its parts
    number: int = -1  # of its answer, or -1 if it has parts
    place: int = 0  # of its bit among the facts or the running latencies, or of a budget among the shares
    negated: bool = False  # under a `not`: its no counts as a yes
    composite: str = ""  # path of the composite policy that it is a budget of

    @property
    def drops(self) -> bool:
        """True if a yes drops the trace."""
        return isinstance(self.node, Drop)

    @property
    def pool(self) -> str:
        """Key of the counters of a limit, which the budgets of a composite policy share."""
        return self.composite or self.path

    @property
    def title(self) -> str:
        """Name by the leaves."""
        if self.number >= 0:
            return self.node.name
        return ("not " if isinstance(self.node, Not) else "") + " and ".join(part.title for part in self.parts)


@dataclass(frozen=True)
class Plan:
    """All policies and all parts that have an answer of their own, in the order of evaluation."""

    policies: tuple[Part, ...]
    leaves: tuple[Part, ...]
    first_match: bool

    @property
    def limits(self) -> tuple[Part, ...]:
        """Leaves that spend a budget."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf.node, RateLimit))


class PolicyWalk(ABC, Generic[A]):
    """Walk over the tree: a part is evaluated only for the traces that reach it, as in the collector.

    What follows a no is not evaluated. Leaves are answered for all traces at once, or for one.
    """

    @property
    @abstractmethod
    def everyone(self) -> A:
        """True for each trace."""

    @abstractmethod
    def answer(self, leaf: Part, candidates: A) -> A:
        """Return which of the given traces get a yes from a leaf."""

    def enter(self, composite: Part, candidates: A) -> None:
        """Prepare for the budgets of a composite policy that the given traces reach."""

    def votes(self, plan: Plan) -> Iterator[tuple[Part, A, A]]:
        """Yield each policy, the traces that it is evaluated for, and those of them that get a yes.

        Dropped traces are not evaluated further, and under first match neither are sampled ones.
        """
        candidates = self.everyone
        for policy in plan.policies:
            yes = self.evaluate(policy, candidates)
            yield policy, candidates, yes
            if policy.drops or plan.first_match:
                candidates = candidates & ~yes  # a new array, as answers refer to the old one

    def evaluate(self, part: Part, candidates: A) -> A:
        """Return which of the given traces get a yes."""
        match part.node:
            case All():
                for each in part.parts:
                    candidates = self.evaluate(each, candidates)
                return candidates
            case Not():
                return candidates & ~self.evaluate(part.parts[0], candidates)
            case Composite():
                return self._evaluate_composite(part, candidates)
        return self.answer(part, candidates)

    def _evaluate_composite(self, composite: Part, candidates: A) -> A:
        """Return which traces fit the budget of the first part that says yes."""
        self.enter(composite, candidates)
        kept = candidates & ~candidates
        for part, budget in zip(composite.parts, composite.budgets, strict=True):
            reached = self.evaluate(part, candidates)
            kept = kept | self.answer(budget, reached)
            candidates = candidates & ~reached
        return kept


def build_plan(policies: PolicySet) -> Plan:
    """Number the leaves of policies.

    Raises `ConfigError` if a policy that drops is inside another one.
    """
    builder = _PlanBuilder(policies)
    planned = tuple(builder.build(node, place, "") for place, node in enumerate(policies.policies))
    return Plan(planned, tuple(builder.leaves), policies.first_match)


@dataclass
class _PlanBuilder:
    policies: PolicySet
    leaves: list[Part] = field(default_factory=list)
    running: int = 0
    negated: bool = False
    paths: set[str] = field(default_factory=set)

    def build(self, node: Node, policy: int, above: str) -> Part:
        path = self._path(above, node.name)
        match node:
            case Drop() if above:
                raise ConfigError(
                    f"policy {path!r} of type {node.kind!r} is not allowed here",
                    hint="a policy that drops must be at the top level",
                )
            case Composite():
                return self._composite(node, policy, path)
            case All() | Not():
                was, self.negated = self.negated, self.negated != isinstance(node, Not)
                parts = tuple(self.build(child, policy, path) for child in node.children)
                self.negated = was
                return Part(node, path, policy, parts)
        return self._leaf(node, policy, path, self._bit(node))

    def _composite(self, node: Composite, policy: int, path: str) -> Part:
        parts, budgets = [], []
        for place, child in enumerate(node.children):
            parts.append(self.build(child, policy, path))
            share = self._path(parts[-1].path, "share")
            budgets.append(self._leaf(node.budget(place), policy, share, place, composite=path))
        return Part(node, path, policy, tuple(parts), tuple(budgets))

    def _leaf(self, node: Node, policy: int, path: str, place: int, composite: str = "") -> Part:
        number = len(self.leaves)
        leaf = Part(node, path, policy, number=number, place=place, negated=self.negated, composite=composite)
        self.leaves.append(leaf)
        return leaf

    def _bit(self, node: Node) -> int:
        if isinstance(node, Holds):
            return self.policies.facts.index(node.fact)
        if isinstance(node, Latency) and node.running:
            self.running += 1
            return self.running - 1
        return 0

    def _path(self, above: str, name: str) -> str:
        """Return the path of a part by names, with a number appended if it would be a duplicate."""
        wanted = path = f"{above}/{name}" if above else name
        count = 1
        while path in self.paths:
            count += 1
            path = f"{wanted}#{count}"
        self.paths.add(path)
        return path
