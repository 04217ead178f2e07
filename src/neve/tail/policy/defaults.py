"""The policies without a file: errors, slow traces, and a share of all others."""

from __future__ import annotations

from neve.tail.policy.read import read_policies
from neve.tail.policy.tree import PolicySet, Semantics

SLOW_MS = 5000
PERCENTAGE = 1.0


def default_policies(
    slow_ms: int = SLOW_MS, percentage: float = PERCENTAGE, semantics: Semantics = Semantics.DOCUMENTED
) -> PolicySet:
    """Every trace with an error, every slow one, and a percentage of the rest."""
    return read_policies(
        {
            "policies": [
                {"name": "errors", "type": "error"},
                {"name": "slow", "type": "latency", "latency": {"threshold_ms": slow_ms}},
                {"name": "rest", "type": "probabilistic", "probabilistic": {"sampling_percentage": percentage}},
            ]
        },
        semantics,
        environment={},
    )
