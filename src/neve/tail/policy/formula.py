"""Policies as a formula: given the answer to every question, whether they sample; nothing is spent by asking it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from neve.tail.policy.plan import Ask, Every, FirstShare, Opposite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.tail.policy.plan import Plan, Tree
    from neve.tail.policy.traces import Bools

Answer: TypeAlias = "Bools | np.bool_ | bool"  # of each trace, or the same for all
Truth: TypeAlias = "dict[int, Answer]"  # by the question's number


def sampled(plan: Plan, truth: Mapping[int, Answer]) -> Answer:
    """Whether the policies sample: dropped beats sampled, or the first that says anything wins."""
    kept: Answer = False
    undecided: Answer = True
    for policy in plan.policies:
        yes = _holds(policy.tree, truth)
        if policy.drops and not plan.first_match:
            kept = np.logical_and(kept, np.logical_not(yes))
        if not policy.drops:
            kept = np.logical_or(kept, np.logical_and(undecided, yes))
        if policy.drops or plan.first_match:
            undecided = np.logical_and(undecided, np.logical_not(yes))
    return kept


def _holds(tree: Tree, truth: Mapping[int, Answer]) -> Answer:
    match tree:
        case Ask(question=question):
            return truth[question.number]
        case Opposite(part=part):
            return np.logical_not(_holds(part, truth))
        case Every(parts=parts):
            every: Answer = True
            for part in parts:
                every = np.logical_and(every, _holds(part, truth))
            return every
        case FirstShare():
            return _first_share(tree, truth)


def _first_share(tree: FirstShare, truth: Mapping[int, Answer]) -> Answer:
    kept: Answer = False
    left: Answer = True
    for part, budget in zip(tree.parts, tree.budgets, strict=True):
        here = np.logical_and(left, _holds(part, truth))
        kept = np.logical_or(kept, np.logical_and(here, truth[budget.number]))
        left = np.logical_and(left, np.logical_not(here))
    return kept
