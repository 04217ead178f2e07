"""Verdicts on a batch of traces: what was decided, by whom, with which chance, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.tail.policy.reasons import Record
    from neve.tail.policy.traces import Doubles, Unsigned

SAMPLED = 1
NOT_SAMPLED = 0
DROPPED = -1
UNASKED = -2  # a vote that was not needed any more

_CHUNK = 1 << 15  # reasons that are made at a time, as the pieces of sentences take more room than they


@dataclass(frozen=True)
class Verdicts:
    """One place of each array for each trace."""

    decision: npt.NDArray[np.int8]
    policy: npt.NDArray[np.int32]  # the first that voted for what was decided, -1 where none sampled
    votes: npt.NDArray[np.int8]  # n x number of policies
    probability: Doubles  # the chance of a trace with these facts to be sampled, what its sender did included
    threshold: Unsigned  # T for `ot=th`; 2^56 for what can't be sampled
    record: Record

    def __len__(self) -> int:
        return len(self.decision)

    @cached_property
    def adjusted_count(self) -> Doubles:
        """How many traces each sampled one stands for; 0 for the others."""
        kept = self.decision == SAMPLED
        return np.divide(1.0, self.probability, out=np.zeros(len(self)), where=kept)

    @property
    def refused_by(self) -> npt.NDArray[np.int32]:
        """For each trace that was not sampled the policy whose limit it did not fit in, -1 where there is none."""
        policies = np.array([*(question.policy for question in self.record.plan.questions), -1], dtype=np.int32)
        return policies[self.record.refused_by]

    def reason(self, place: int) -> str:
        """Why, in plain words, for one trace."""
        return str(self.record.reasons(self.decision, self.policy, np.array([place]))[0].as_py())

    def reasons(self) -> pa.Array:
        """Why, for every trace."""
        parts = [
            self.record.reasons(self.decision, self.policy, np.arange(start, min(start + _CHUNK, len(self))))
            for start in range(0, len(self), _CHUNK)
        ]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.string())
