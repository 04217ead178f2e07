"""Results of sampling runs: the windows that were sampled, why, and how many records were kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from neve.lake.time_ranges import moment_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.reservoir.tables.plan import Counts, Plan, PlannedWindow


@dataclass(frozen=True)
class WindowResult:
    """Result of one window: its records, the kept records, and the cost."""

    window: str
    start: str
    end: str
    reason: str
    records: int
    kept: int
    files: int
    bytes: int
    convention: str
    counted_as_one: int = 0
    guessed: int = 0
    seconds: float = 0.0

    def as_document(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        return asdict(self)


class WindowTotals:
    """Totals of the windows of a run."""

    windows: tuple[WindowResult, ...] | tuple[TableWindowResult, ...]

    @property
    def records(self) -> int:
        """Records of the sampled windows."""
        return sum(window.records for window in self.windows)

    @property
    def kept_records(self) -> int:
        """Kept records of the sampled windows."""
        return sum(window.kept for window in self.windows)


@dataclass(frozen=True)
class RunResult(WindowTotals):
    """Result of a run: its windows, and the number of unchanged windows."""

    signal: str
    source: str
    target: str
    policy: str
    windows: tuple[WindowResult, ...]
    current: int
    waiting: int
    other_policy: int
    gone: int
    ignored: tuple[str, ...]
    seconds: float

    def as_document(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        return {**asdict(self), "records": self.records, "kept": self.kept_records}


@dataclass(frozen=True)
class TableWindowResult:
    """Result of one window of one organization."""

    organization_id: str
    start: str
    records: int
    kept: int
    counted_as_one: int = 0


@dataclass(frozen=True)
class TableRunResult(WindowTotals):
    """Result of a run: its windows and changes.

    `mixed` is set if windows remain that were sampled by another policy.
    """

    source: str
    target: str
    policy: str
    how: str
    reason: str
    windows: tuple[TableWindowResult, ...] = ()
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
    def is_committed(self) -> bool:
        """True if the run committed a change."""
        return bool(self.snapshot)

    @property
    def counted_as_one(self) -> int:
        """Records with an invalid weight, which count as 1."""
        return sum(window.counted_as_one for window in self.windows)

    def as_document(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        totals = {"records": self.records, "kept": self.kept_records, "counted_as_one": self.counted_as_one}
        return {**asdict(self), "committed": self.is_committed, **totals}


def list_window_results(
    to_sample: Sequence[PlannedWindow], kept: Counts, wrong: Counts
) -> tuple[TableWindowResult, ...]:
    """Return the result of each window."""
    return tuple(
        TableWindowResult(
            planned.owner,
            moment_of(planned.start).isoformat(),
            planned.records,
            kept.get((planned.owner, planned.start), 0),
            wrong.get((planned.owner, planned.start), 0),
        )
        for planned in to_sample
    )


def format_planned_windows(plan: Plan) -> list[dict[str, Any]]:
    """Return the windows of a plan as JSON documents."""
    return [
        {"organization_id": planned.owner, "start": moment_of(planned.start).isoformat(), "records": planned.records}
        for planned in plan.to_sample
    ]
