"""Policies as they are asked about a trace once more: what spans tell may change, chance stays, budgets are spent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.tail.policy.tree import All, Always, Composite, Drop, Dynamic, Not, RateLimit
from neve.tail.summary import walk

if TYPE_CHECKING:
    from neve.tail.policy.tree import Node, PolicySet

NEVER = Not("never", "not", Always("always", "always_sample"))


def is_limited(policies: PolicySet) -> bool:
    """Whether a policy goes by how many other traces there are."""
    return any(_is_limit(node) for policy in policies.policies for node in walk(policy))


def without_limits(policies: PolicySet) -> PolicySet:
    """The same policies, with those that go by other traces never sampling; the others keep their places."""
    return replace(policies, policies=tuple(map(_without, policies.policies)))


def _is_limit(node: Node) -> bool:
    return isinstance(node, RateLimit | Composite | Dynamic)


def _without(node: Node) -> Node:
    match node:
        case RateLimit() | Dynamic():
            return replace(NEVER, name=node.name)
        case Composite():
            return All(node.name, node.kind, (NEVER, *(_without(share.part) for share in node.shares)))
        case Not() if any(map(_is_limit, walk(node))):
            return All(node.name, node.kind, (NEVER, _without(node.part)))
        case All() | Drop():
            return replace(node, parts=tuple(map(_without, node.parts)))
    return node
