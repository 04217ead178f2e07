"""What a run did to a sample of the lake, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from neve.reservoir.lake.windows import moment_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.reservoir.lake.plan import Counts, Plan, Turn


@dataclass(frozen=True)
class WindowTold:
    """One window of one organization."""

    organization_id: str
    start: str
    records: int
    kept: int
    counted_as_one: int = 0


@dataclass(frozen=True)
class LakeRun:
    """A run: its windows, and what it changed; `mixed` says that windows stay which another policy decided about."""

    source: str
    target: str
    policy: str
    how: str
    reason: str
    windows: tuple[WindowTold, ...] = ()
    waiting: int = 0
    left: int = 0
    mixed: bool = False
    files_added: int = 0
    files_removed: int = 0
    delete_files: int = 0
    bytes: int = 0
    source_snapshot: str = ""
    snapshot: str = ""
    seconds: float = 0.0

    @property
    def committed(self) -> bool:
        """Whether anything was changed."""
        return bool(self.snapshot)

    @property
    def records(self) -> int:
        """Records of the windows that were sampled."""
        return sum(window.records for window in self.windows)

    @property
    def kept(self) -> int:
        """Records that are kept of them."""
        return sum(window.kept for window in self.windows)

    @property
    def counted_as_one(self) -> int:
        """Records whose weight can't be."""
        return sum(window.counted_as_one for window in self.windows)

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        told = {"records": self.records, "kept": self.kept, "counted_as_one": self.counted_as_one}
        return {**asdict(self), "committed": self.committed, **told}


def windows_told(turns: Sequence[Turn], kept: Counts, wrong: Counts) -> tuple[WindowTold, ...]:
    """What became of each window."""
    return tuple(
        WindowTold(
            turn.owner,
            moment_of(turn.start).isoformat(),
            turn.records,
            kept.get((turn.owner, turn.start), 0),
            wrong.get((turn.owner, turn.start), 0),
        )
        for turn in turns
    )


def planned_told(plan: Plan) -> list[dict[str, Any]]:
    """The windows of a plan, for programs."""
    return [
        {"organization_id": turn.owner, "start": moment_of(turn.start).isoformat(), "records": turn.records}
        for turn in plan.turns
    ]
