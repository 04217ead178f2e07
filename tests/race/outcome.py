"""What a race did, and whether all is well."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass
class Outcome:
    """Troubles and numbers of a race."""

    troubles: list[str] = field(default_factory=list)
    rounds: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    groups: int = 0
    compactions: int = 0
    taken: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    settled: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether the rows were equal each time and nothing else went wrong."""
        return bool(self.rounds) and not self.troubles

    def count_runs(self, results: Iterable[dict[str, Any]]) -> None:
        """Add up what runs that lived to tell said of themselves."""
        for result in results:
            self.runs["ended"] += 1
            for key in ("planned", "committed", "conflicts", "failed", "unknown"):
                self.runs[key] += result[key]
            self.count_errors(result["errors"])

    def count_settled(self, settled: Iterable[dict[str, Any]]) -> None:
        """Add up what became of dead runs."""
        for one in settled:
            self.settled.update(runs=1, published=one["published"], orphans=one["orphans"])

    def count_errors(self, errors: Iterable[str]) -> None:
        """Add up what runs failed at."""
        self.errors.update(map(_kind, errors))

    def __str__(self) -> str:
        return "\n".join([*(f"trouble: {trouble}" for trouble in self.troubles), *self.numbers])

    @property
    def numbers(self) -> list[str]:
        """Some lines."""
        good, when = ("good", "after each") if self.good else ("BAD", "before the trouble")
        runs = self.runs
        return [
            f"{good}: {self.rounds} rounds in {self.seconds:.0f} seconds, rows equal by Spark and by pyiceberg {when}",
            f"kills: {_counts(self.deaths)}; {self.missed} came when the time was over",
            f"changes: {_counts(self.changes)}; {self.lost} attempts lost to compaction and done again",
            f"compaction: {self.groups} groups published in {self.compactions} commits; {self.taken} runs kept off by "
            "the lease",
            f"the {runs['ended']} runs that lived to tell: {_counts(runs)}",
            f"dead runs: {_counts(self.settled)}; {self.refused} orphans removed at the end",
            *(f"said {count} times: {error}" for error, count in self.errors.most_common(5)),
        ]


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common() if count) or "none"


def _kind(error: str) -> str:
    """An error without what tells it from others of its kind."""
    return re.sub(r"compact:[-0-9A-Za-z:]+|file:\S+|[{].*", "…", error)[:160]
