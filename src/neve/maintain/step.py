"""A maintenance step.

Its context (table, settings, guards, time), its result (entries, gain, cost), and the history of results in the state
store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from neve.maintain.config import MaintainConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from pyiceberg.table import Table

    from neve.lake.lake import Lake


@dataclass(frozen=True)
class Entry:
    """A snapshot, file or tag, the action on it (which may be none), and the reason."""

    action: str
    what: str
    reason: str
    bytes: int = 0


KEEP = "keep"


@dataclass(frozen=True)
class Gain:
    """Removed objects, or those that a dry run would remove."""

    snapshots: int = 0
    refs: int = 0
    files: int = 0
    delete_files: int = 0
    manifests: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Cost:
    """Cost of a step. Storage calls are calculated from the work, not measured."""

    api_calls: int = 0
    bytes_written: int = 0


@dataclass(frozen=True)
class Outcome:
    """Outcome of a step: whether it changed anything, the reason, and every checked object."""

    reason: str
    changed: bool = False
    entries: tuple[Entry, ...] = ()
    gain: Gain = field(default_factory=Gain)
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True)
class StepResult:
    """Result of one step on one table, for reports and the history."""

    step: str
    table: str
    dry_run: bool
    started_at: datetime
    seconds: float
    outcome: Outcome
    error: str | None = None
    hint: str | None = None

    @property
    def is_failure(self) -> bool:
        """True if the step ended in an error."""
        return self.error is not None

    def to_json(self) -> dict[str, Any]:
        """Return the whole result as JSON values."""
        return {**self.record(), "entries": [asdict(entry) for entry in self.outcome.entries]}

    def record(self) -> dict[str, Any]:
        """Return the form for the history: everything but the entries."""
        return {
            "step": self.step,
            "table": self.table,
            "dry_run": self.dry_run,
            "started_at": self.started_at.isoformat(),
            "seconds": round(self.seconds, 3),
            "changed": self.outcome.changed,
            "reason": self.outcome.reason,
            "gain": asdict(self.outcome.gain),
            "cost": asdict(self.outcome.cost),
            "error": self.error,
            "hint": self.hint,
        }


SPACE = "maintain-history"


class HistoryStore(Protocol):
    """Document store methods that the history needs."""

    def put(self, space: str, key: str, value: Mapping[str, object]) -> None:
        """Store a document."""

    def entries(self, space: str, prefix: str = "") -> Iterator[tuple[str, dict[str, object]]]:
        """Yield documents in the order of their keys."""

    def delete(self, space: str, key: str) -> None:
        """Delete a document."""


@dataclass(frozen=True)
class History:
    """History of runs that were not dry runs, by table and time."""

    documents: HistoryStore
    keep_days: int = 90

    def remember(self, result: StepResult) -> None:
        """Store a run, and delete runs of its table that are too old."""
        oldest = _key(result.table, result.started_at - timedelta(days=self.keep_days))
        for key, _value in list(self.documents.entries(SPACE, f"{result.table}/")):
            if key >= oldest:
                break
            self.documents.delete(SPACE, key)
        self.documents.put(SPACE, f"{_key(result.table, result.started_at)}/{result.step}", result.record())

    def runs(self, table: str = "", *, step: str = "", limit: int = 0) -> list[dict[str, Any]]:
        """Return stored runs, the newest first, optionally of one table, of one step, and at most `limit`."""
        found = [value for _key, value in self.documents.entries(SPACE, f"{table}/" if table else "")]
        chosen = [run for run in found if not step or run["step"] == step]
        chosen.sort(key=lambda run: str(run["started_at"]), reverse=True)
        return chosen[:limit] if limit else chosen


def _key(table: str, moment: datetime) -> str:
    return f"{table}/{moment.strftime('%Y-%m-%dT%H:%M:%S.%f')}"


ProgressCallback = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Guards:
    """Protected objects that maintenance must not remove, as reported by other packages.

    Ingestion detects duplicates by snapshots younger than `horizon`. `protected` are files that are about to be
    committed, and `excluded_folders` belong to no table. `folders` returns the current folders of uncommitted work,
    `batches` the batches that must still be found in snapshots. Both are called each time. `readers` returns the
    incremental readers of a table, and the snapshot that each has read last.
    """

    horizon: timedelta = timedelta(hours=1)
    protected: frozenset[str] = frozenset()
    excluded_folders: tuple[str, ...] = ()
    folders: Callable[[], tuple[str, ...]] = tuple
    batches: Callable[[], frozenset[str]] = frozenset
    readers: Callable[[str], tuple[tuple[str, int], ...]] = lambda _table: ()


@dataclass(frozen=True)
class StepContext:
    """Context of a step on one table."""

    lake: Lake
    name: str
    now: datetime
    config: MaintainConfig = field(default_factory=MaintainConfig)
    guards: Guards = field(default_factory=Guards)
    dry_run: bool = False
    report_progress: ProgressCallback = lambda _step, _done, _total: None
    check: Callable[[], None] = lambda: None

    def table(self) -> Table:
        """Load the current state of the table."""
        return self.lake.table(self.name)
