"""What a run did to a level, and why; and how a level stands."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lake.row_change import RowChange
    from neve.rollup.tasks import Done
    from neve.rollup.turn import Planned, Turn

MICROS = 1_000_000


@dataclass(frozen=True)
class LevelResult:
    """What became of one level."""

    level: str
    table: str
    reason: str
    committed: bool
    source_rows: int = 0
    duplicates: int = 0
    without_value: int = 0
    unknown: int = 0
    rows: int = 0
    windows: int = 0
    left_windows: int = 0
    files_added: int = 0
    files_removed: int = 0
    delete_files: int = 0
    bytes_added: int = 0
    closed_until: str = ""
    source_snapshot: str = ""
    snapshot: str = ""
    seconds: float = 0.0

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(frozen=True)
class LevelStatus:
    """How one level stands; the lag is how long ago its last final window ended, and 0 where nothing waits."""

    level: str
    table: str
    rows: int
    files: int
    bytes: int
    closed_until: str
    lag_seconds: float | None
    commits_behind: int | None
    note: str

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def told(
    turn: Turn, planned: Planned, done: Sequence[Done], change: RowChange, snapshot: int | None, seconds: float
) -> LevelResult:
    """What a turn did."""
    micros = turn.level.micros
    position = turn.position if snapshot is not None else turn.was
    return LevelResult(
        level=turn.level.name,
        table=turn.level.table,
        reason=planned.reason,
        committed=snapshot is not None,
        source_rows=sum(one.told.points for one in done),
        duplicates=sum(one.told.duplicates for one in done),
        without_value=sum(one.told.without_value for one in done),
        unknown=sum(one.told.unknown for one in done),
        rows=sum(one.rows for one in done),
        windows=sum(ranges.length // micros for ranges in planned.windows(done).values()),
        left_windows=planned.left,
        files_added=len(change.added),
        files_removed=len(change.removed),
        delete_files=len(change.deletes),
        bytes_added=sum(int(file["file-size-in-bytes"]) for file in (*change.added, *change.deletes)),
        closed_until=shown(position.closed_until) if position else "",
        source_snapshot=str(position.snapshot or "") if position else "",
        snapshot=str(snapshot or ""),
        seconds=seconds,
    )


def shown(moment: int) -> str:
    """A moment as programs and people read it; nothing for one that no calendar has.

    >>> shown(1_700_000_000_000_000)
    '2023-11-14T22:13:20Z'
    """
    try:
        return datetime.fromtimestamp(moment / MICROS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return ""
