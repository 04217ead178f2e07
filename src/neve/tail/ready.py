"""When a trace is complete: as SQL over summaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.tail.policy.tree import Semantics

if TYPE_CHECKING:
    from neve.tail.config import TailConfig
    from neve.tail.policy.tree import PolicySet

MICROS = 1_000_000
INACTIVE, MAX_DURATION, ROOT_ENDED, MEMORY = "inactive", "max_duration", "root_ended", "memory"


@dataclass(frozen=True)
class Readiness:
    """The waits, in microseconds; `None`: that one does not matter."""

    inactivity_us: int | None
    longest_us: int
    after_root_us: int | None = None

    @classmethod
    def of(cls, config: TailConfig, policies: PolicySet) -> Readiness:
        """What the settings say, and the policies' file where it says more.

        A collector decides so long after the first span, whatever comes: so does `otelcol` where the file says how
        long.
        """
        after_root = config.after_root_seconds
        if after_root is None and policies.after_root_seconds:
            after_root = policies.after_root_seconds
        root = None if after_root is None else round(after_root * MICROS)
        if policies.semantics == Semantics.OTELCOL and policies.decision_wait_seconds is not None:
            return cls(None, round(policies.decision_wait_seconds * MICROS), root)
        return cls(round(config.inactivity_seconds * MICROS), round(config.max_duration_seconds * MICROS), root)

    @property
    def at(self) -> str:
        """When a trace is ready, as SQL."""
        moments = [f"first_us + {self.longest_us}"]
        if self.inactivity_us is not None:
            moments.append(f"last_us + {self.inactivity_us}")
        if self.after_root_us is not None:
            moments.append(f"coalesce(root_us + {self.after_root_us}, first_us + {self.longest_us})")
        return f"least({', '.join(moments)})"

    @property
    def because(self) -> str:
        """Why it is ready then, as SQL."""
        cases = ""
        if self.after_root_us is not None:
            cases += f"WHEN root_us + {self.after_root_us} <= {self.at} THEN '{ROOT_ENDED}' "
        if self.inactivity_us is not None:
            cases += f"WHEN last_us + {self.inactivity_us} <= {self.at} THEN '{INACTIVE}' "
        return f"CASE {cases}ELSE '{MAX_DURATION}' END" if cases else f"'{MAX_DURATION}'"
