"""What is said about a message that was accepted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.model.signals import Signal


@dataclass(frozen=True)
class Answer:
    """How many records a message holds, and how many of them go to quarantine, by reason."""

    signal: Signal
    records: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)

    @property
    def rejected_count(self) -> int:
        """How many records are refused."""
        return sum(self.rejected.values())

    @property
    def message(self) -> str:
        """The refused records in words; empty when there are none.

        >>> from neve.model.signals import Signal
        >>> Answer(Signal.TRACES, 500, {"missing_time": 1, "invalid_trace_id": 2}).message
        '3 of 500 spans were refused and kept in quarantine: 2 invalid_trace_id, 1 missing_time'
        """
        if not self.rejected:
            return ""
        ordered = sorted(self.rejected.items(), key=lambda item: (-item[1], item[0]))
        reasons = ", ".join(f"{count} {reason}" for reason, count in ordered)
        return (
            f"{self.rejected_count} of {self.records} {self.signal.record} were refused and kept in quarantine: "
            f"{reasons}"
        )
