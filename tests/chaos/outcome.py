"""What a run did, and whether all is well."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.kills import Kill
    from tests.chaos.verdict import Verdict


@dataclass
class Outcome:
    """Verdicts and numbers of a run."""

    verdicts: list[Verdict] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    records: int = 0
    exports: int = 0
    retried: int = 0
    deaf: int = 0
    duplicates: int = 0
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether everything is there once and nothing else went wrong."""
        return bool(self.verdicts) and all(verdict.good for verdict in self.verdicts) and not self.troubles

    def __str__(self) -> str:
        lines = [*map(str, self.verdicts), *(f"trouble: {trouble}" for trouble in self.troubles)]
        return "\n".join([*lines, self.numbers])

    @property
    def numbers(self) -> str:
        """All of it in one line."""
        victims = Counter(kill.victim.value for kill in self.kills)
        unheard = f" ({self.deaf:,} of them because their answer was not heard)" if self.deaf else ""
        return (
            f"{'good' if self.good else 'BAD'}: {self.records:,} records acknowledged in {self.exports:,} exports, "
            f"{self.retried:,} exports retried{unheard}, "
            f"{self.duplicates:,} duplicates dropped, "
            f"{len(self.kills)} kills ({', '.join(f'{count} {victim}' for victim, count in sorted(victims.items()))}), "
            f"{self.seconds:.0f} seconds"
        )
