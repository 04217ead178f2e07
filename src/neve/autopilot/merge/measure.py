"""What a merge delivered: what hot queries plan to read for each row of the table, before and after it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from neve.autopilot.outcome import Remeasured, delivered_pct
from neve.autopilot.stage.listing import files_at
from neve.lake.branches import MAIN, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from neve.autopilot.canary.report import CanaryResult, SkippedQuery


@dataclass(frozen=True)
class Measured:
    """Hot queries before and after; main may have grown, so what counts is the bytes for each row of the table.

    Answers differ where rows came or went since: they are compared by the canary, not here.
    """

    table: str
    delivered_pct: float | None  # none where nothing was planned before
    rows_before: int  # of the whole table
    rows_after: int
    lines: tuple[Remeasured, ...]
    skipped: tuple[SkippedQuery, ...]

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def measured(table: Table, before: int, results: Sequence[CanaryResult], skipped: Sequence[SkippedQuery]) -> Measured:
    """The reduction that was delivered, from what was planned on both sides."""
    main = snapshot_of(table, MAIN)
    old, new = (sum(file.rows for file in files_at(table, one or before).values()) for one in (before, main))
    lines = tuple(
        Remeasured(one.weight, one.planned_main / max(1, old), one.planned_branch / max(1, new)) for one in results
    )
    return Measured(".".join(table.name()), delivered_pct(lines), old, new, lines, tuple(skipped))
