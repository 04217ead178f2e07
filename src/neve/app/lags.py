"""How far the tables are behind what comes in: from metadata, and from the list of what was received."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from neve.app.reports import FreshnessReport, LagsReport, LevelReport, TailReport, ZoneReport
from neve.app.rollup import build_rollup
from neve.app.tail import build_status
from neve.errors import NeveError
from neve.lake.calendar import EPOCH, now_utc
from neve.model.tail import OPEN_TRACES
from neve.raw.zone import EVENTS, OTLP, RawZone

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.lake.lake import Lake

Found = TypeVar("Found")


@dataclass(frozen=True)
class Lags:
    """Looks at one lake."""

    settings: Settings
    lake: Lake
    clock: Callable[[], datetime] = now_utc

    def look(self) -> LagsReport:
        """All of it; what can't be looked at is said, and keeps nothing else from being told."""
        unknown: list[str] = []
        names = _tried(self.lake.table_names, "the catalog", unknown) or []
        return LagsReport(
            zones=_tried(self._zones, "the raw zone", unknown) or [],
            tables=_tried(lambda: [self._freshness(name) for name in names], "the tables", unknown) or [],
            rollups=(names and _tried(self._rollups, "the rollups", unknown)) or [],
            tail=_tried(self._tail, "tail sampling", unknown) if OPEN_TRACES.name in names else None,
            unknown=unknown,
        )

    def _zones(self) -> list[ZoneReport]:
        found = []
        for name in (OTLP, EVENTS):
            backlog = RawZone.of(self.settings.raw.location, self.settings.s3, name).backlog()
            oldest = min((segment.modified for segment in backlog), default=time.time())
            found.append(
                ZoneReport(
                    zone=name,
                    segments=len(backlog),
                    bytes=sum(segment.size for segment in backlog),
                    oldest_seconds=max(0.0, time.time() - oldest),
                )
            )
        return found

    def _freshness(self, name: str) -> FreshnessReport:
        last = last_commit(self.lake, name)
        age = max(0.0, (self.clock() - last).total_seconds()) if last else None
        return FreshnessReport(table=name, last_commit=last, age_seconds=age)

    def _rollups(self) -> list[LevelReport]:
        rollup = build_rollup(self.settings, self.lake)
        try:
            return [LevelReport.model_validate(one) for one in rollup.status()]
        finally:
            rollup.documents.close()

    def _tail(self) -> TailReport:
        status = build_status(self.settings, self.lake)
        return TailReport(
            selector=status.selector,
            cycle=status.cycle,
            last_cycle=status.last_cycle,
            open_traces=status.open_traces,
            behind=status.behind,
            decisions=status.decisions,
            destinations=[f"{one.name}: {one.note}" for one in status.destinations],
        )


def last_commit(lake: Lake, name: str) -> datetime | None:
    """When a table was last committed to."""
    snapshot = lake.table(name).current_snapshot()
    return EPOCH + timedelta(milliseconds=snapshot.timestamp_ms) if snapshot else None


def _tried(look: Callable[[], Found], what: str, unknown: list[str]) -> Found | None:
    try:
        return look()
    except Exception as error:  # whatever it is, of the catalog, the storage or the state store: the rest is told
        unknown.append(f"{what}: {words_of(error)}")
        return None


def words_of(error: Exception) -> str:
    """What an error says, in one line.

    >>> words_of(NeveError("no such place", hint="look elsewhere")), words_of(OSError())
    ('no such place', 'OSError')
    """
    text = error.message if isinstance(error, NeveError) else f"{type(error).__name__}: {error}"
    return (text.splitlines() or [""])[0].removesuffix(": ")
