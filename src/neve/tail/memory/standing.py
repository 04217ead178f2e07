"""Where a selector in memory is between cycles, but for the spans that it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.tail.memory.result import MEMORY
from neve.tail.policy.state import LimitState
from neve.tail.position import Position

if TYPE_CHECKING:
    from neve.tail.judging import Judging


@dataclass(frozen=True)
class Standing:
    """The cycle that ended last, until when traces that were ready are decided, and how far budgets are."""

    cycle: int = 0
    until_us: int = 0
    limits: dict[str, LimitState] = field(default_factory=dict)

    @classmethod
    def after(cls, last: Position | None) -> Standing:
        """Where an earlier process of the selector was, but for the spans that it held."""
        if last is None:
            return cls()
        limits = {owner: LimitState.from_document(document) for owner, document in last.limits.items()}
        return cls(last.cycle, last.until_us, limits)

    def next(self, judging: Judging) -> Standing:
        """After a cycle."""
        return Standing(self.cycle + 1, judging.until_us, judging.limits)

    def position(self, policies: str, now_us: int) -> Position:
        """The same, as a commit carries it."""
        limits = {owner: one.as_document() for owner, one in self.limits.items()}
        return Position(self.cycle, MEMORY, None, now_us, self.until_us, policies, "", limits=limits)
