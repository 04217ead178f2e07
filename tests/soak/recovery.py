"""Kills and what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.soak.plan import Victim
    from tests.soak.sample import Sample


LEFT_OVER_SECONDS = 3.0  # in which what was about to be committed may still be, by someone who outlived the victim


@dataclass(frozen=True)
class Recovery:
    """Who was killed when, and how long it took until all was at work again; none where it never was."""

    victim: Victim
    at: float
    seconds: float | None

    def __str__(self) -> str:
        took = "never" if self.seconds is None else f"after {self.seconds:.1f} s"
        return f"{self.victim} killed at {self.at:.0f} s, at work again {took}"


@dataclass(frozen=True)
class Returns:
    """When what follows ingestion was committed, in seconds since sending began, in any order."""

    rollups: Sequence[float] = ()
    tail: Sequence[float] = ()


def slowest_back(kills: Iterable[float], commits: Sequence[float]) -> float:
    """The most seconds from a kill to the first commit after it; infinite where none came any more."""
    return max(_first_after(kill, commits) for kill in kills)


def _first_after(kill: float, commits: Sequence[float]) -> float:
    return min((at - kill for at in commits if at > kill + LEFT_OVER_SECONDS), default=float("inf"))


def calm(samples: Iterable[Sample], kills: Sequence[float], recovery_seconds: float) -> list[Sample]:
    """Those samples that no start and no kill excuses."""
    excused = [0.0, *kills]
    return [sample for sample in samples if not any(begin <= sample.at < begin + recovery_seconds for begin in excused)]
