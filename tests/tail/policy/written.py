"""Policies as users write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.tail.policy.config.loader import read_policies
from neve.tail.policy.semantics import Semantics

if TYPE_CHECKING:
    from neve.tail.policy.tree import PolicySet


def policy(kind: str, section: Any = None, name: str = "p") -> dict[str, Any]:
    """A policy as a user writes it."""
    return {"name": name, "type": kind, **({kind: section} if section is not None else {})}


def read(*policies: dict[str, Any], semantics: Semantics = Semantics.DOCUMENTED, **options: Any) -> PolicySet:
    """The policies of a document with nothing else in it."""
    return read_policies({"policies": list(policies), **options}, semantics)


def composite(**more: Any) -> dict[str, Any]:
    """A composite policy with three parts."""
    parts = [policy("always_sample", name=name) for name in ("a", "b", "c")]
    return policy("composite", {"max_total_spans_per_second": 1000, "composite_sub_policy": parts, **more})
