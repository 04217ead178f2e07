"""Status of the rollup levels: rows, lag and pending commits of each, from metadata alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from neve.lake.calendar import micros_of
from neve.lake.read.history import read_totals
from neve.lake.read.local_statistics import read_time_bounds
from neve.lake.read.local_table import UNREADABLE, LocalTable
from neve.lake.read.positions import count_commits_since
from neve.model.levels import LEVELS
from neve.rollup.definition import Definition
from neve.rollup.position import ROLLUP, Position

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.model.levels import Level
    from neve.rollup.config import RollupConfig

MICROS_PER_SECOND = 1_000_000


@dataclass(frozen=True)
class LevelStatus:
    """Status of one level. The lag is the time since the end of its last final window, or 0 if nothing is pending."""

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
        """Return the status as a JSON document, for programs."""
        return asdict(self)


def read_level_status(lake: Lake, config: RollupConfig, now: datetime) -> list[LevelStatus]:
    """Return the status of every level at a time."""
    return [_read_status(lake, level, config, now) for level in LEVELS]


def _read_status(lake: Lake, level: Level, config: RollupConfig, now: datetime) -> LevelStatus:
    table, source = lake.table_metadata(level.table), lake.table_metadata(level.source)
    position, totals = Position.load(table, ROLLUP), read_totals(table)
    behind = count_commits_since(source, position.snapshot) if position else None
    return LevelStatus(
        level=level.name,
        table=level.table,
        rows=totals.rows,
        files=totals.files,
        bytes=totals.bytes,
        closed_until=format_moment(position.closed_until) if position else "",
        lag_seconds=None if position is None else _find_lag(source, position, behind, now),
        commits_behind=behind,
        note=_note(position, behind, config),
    )


def _find_lag(source: Table, position: Position, behind: int | None, now: datetime) -> float:
    waits = behind != 0 or may_have_rows_since(source, position.closed_until)
    return (micros_of(now) - position.closed_until) / MICROS_PER_SECOND if waits else 0.0


def may_have_rows_since(table: Table | LocalTable, moment: int) -> bool:
    """Return whether a file may have rows from a time on, by the time bounds of the files."""
    if isinstance(table, LocalTable):
        try:
            return any(latest is None or latest >= moment for _earliest, latest in read_time_bounds(table))
        except UNREADABLE:
            table = table.whole
    from neve.lake.read.snapshot_files import filter_by_time, scan_files  # noqa: PLC0415 - for other places of files
    from neve.lake.time_ranges import END, Ranges  # noqa: PLC0415 - as above

    return bool(scan_files(table, filter_by_time(Ranges.of([(moment, END)]))))


def _note(position: Position | None, behind: int | None, config: RollupConfig) -> str:
    if position is None:
        return "nothing rolled up yet: no run, or no closed window with rows"
    if position.definition != Definition.of(config).fingerprint:
        return "the series definition changed: the next run computes every window"
    if behind is None:
        return "the source snapshot of the last run has expired: the next run computes every window"
    return ""


def format_moment(moment: int) -> str:
    """Format a time for programs and people. Empty for a time outside the calendar.

    >>> format_moment(1_700_000_000_000_000)
    '2023-11-14T22:13:20Z'
    """
    try:
        return datetime.fromtimestamp(moment / MICROS_PER_SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return ""
