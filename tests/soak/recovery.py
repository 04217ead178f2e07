"""Kills and what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.soak.plan import Victim
    from tests.soak.sample import Sample


@dataclass(frozen=True)
class Recovery:
    """Who was killed when, and how long it took until all was at work again; none where it never was."""

    victim: Victim
    at: float
    seconds: float | None

    def __str__(self) -> str:
        took = "never" if self.seconds is None else f"after {self.seconds:.1f} s"
        return f"{self.victim} killed at {self.at:.0f} s, at work again {took}"


def calm(samples: Iterable[Sample], kills: Sequence[float], recovery_seconds: float) -> list[Sample]:
    """Those samples that no start and no kill excuses."""
    excused = [0.0, *kills]
    return [sample for sample in samples if not any(begin <= sample.at < begin + recovery_seconds for begin in excused)]
