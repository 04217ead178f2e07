"""Rollups wired from the settings, and the time that each of them covers for queries.

Windows that retention may have deleted rows of are not computed again.

Coverage is the time of each rollup that is final and up to date with the points, so that queries may read the rollup
instead. Windows count from the beginning up to the time that their level is closed until, except windows that

- commits of the source touched since the level's last run, with the look-back after them, as the next run computes
  them again;
- are not up to date in the level below;
- another writer than the rollup changed in the level's own table, as far as its snapshots show;
- retention may have deleted points or rows of: rollups keep those windows, but the points are gone.

A level that never ran, that was made by other settings, or whose position in its source is gone covers nothing.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol

from neve.app.wiring import build_documents
from neve.errors import TableMissing
from neve.lake.calendar import micros_of, now_utc
from neve.lake.read.history import read_summary, walk_history
from neve.lake.read.positions import find_changes
from neve.lake.time_ranges import BEGINNING, END, EVERYTHING, NO_TIME, Ranges
from neve.logger import get_logger
from neve.maintain.retention_plan import rule_for, rules_for
from neve.model.commits import STREAM
from neve.model.levels import LEVELS
from neve.rollup.definition import Definition, keeps
from neve.rollup.position import ROLLUP, Position

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.lake.read.incremental import Frozen
    from neve.model.levels import Level
    from neve.query.rollup_routing.router import Coverage
    from neve.query.tables import CatalogView
    from neve.rollup.config import RollupConfig
    from neve.rollup.job import Progress, Rollup
    from neve.state.documents import Documents

    FindCoverage = Callable[[CatalogView, str], list[Coverage]]

log = get_logger("neve.rollup")


def build_rollup(
    settings: Settings,
    lake: Lake,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
    clock: Callable[[], datetime] = now_utc,
) -> Rollup:
    """Build the rollups of a lake; `steal` takes the lease of another run that is known to be dead."""
    from neve.rollup.job import Rollup  # noqa: PLC0415 - queries need only the rules of retention

    return Rollup(
        lake,
        settings.rollup,
        build_documents(settings),
        frozen=lambda source: frozen_by_retention(settings, source, clock()),
        clock=clock,
        steal=steal,
        progress=progress,
    )


def refresh_lag(settings: Settings, lake: Lake, documents: Documents) -> None:
    """Update the metrics of rollup lag, whether or not a rollup has run.

    One process of a lake does it, and reads metadata alone. An unknown lag is NaN and is logged: a metric is no reason
    to fail.
    """
    from neve.rollup.job import LAG, Rollup  # noqa: PLC0415 - as above

    try:
        Rollup(lake, settings.rollup, documents).watch_lag()
    except Exception as error:
        # Any error of the catalog, the storage or the network.
        log.warning("lag of rollups is unknown", error=str(error))
        for level in LEVELS:
            LAG.labels(level.name).set(math.nan)


def clear_lag() -> None:
    """Remove the metrics of rollup lag, because another process reports them now."""
    from neve.rollup.job import LAG  # noqa: PLC0415 - as above

    LAG.clear()


def frozen_by_retention(settings: Settings, source: str, now: datetime) -> Frozen:
    """Return a function for the time before which retention may delete an organization's rows.

    Windows before it are frozen.
    """
    rules = rules_for(settings.maintain.retention, source)

    def moment(owner: str) -> int:
        rule = rule_for(rules, owner)
        if rule is None or not rule.days:
            return BEGINNING
        return micros_of(now - timedelta(days=rule.days))

    return moment


MAX_CACHED = 1000  # pairs of level and organization
KeptSince = Callable[[str], int]  # the time before which retention may have deleted rows of a table


def keep_forever(_table: str) -> int:
    """Return the earliest time, for tables without retention."""
    return BEGINNING


class Tables(Protocol):
    """A provider of tables: a lake, or one view of it."""

    def table(self, name: str) -> Table:
        """Return a table; raises `TableMissing`."""


class RollupCoverage:
    """Coverage of the rollups of given settings; changes since their last run are cached."""

    def __init__(self, config: RollupConfig) -> None:
        self._definition = Definition.of(config)
        self._known: OrderedDict[tuple[str, str, str | None], Ranges] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(
        self, tables: Tables, organization: str | None = None, kept_since: KeptSince = keep_forever
    ) -> list[Coverage]:
        """Return the levels that cover any time of an organization, or of all without one, the finest first.

        Only metadata is read if nothing changed since the last run. Otherwise the time bounds of the new files are read
        too.
        """
        from neve.query.rollup_routing.router import Coverage  # noqa: PLC0415 - sqlglot, for queries

        definition = self._definition
        found: list[Coverage] = []
        uncovered = NO_TIME  # of the level below
        for level in LEVELS:
            try:
                source, table = tables.table(level.source), tables.table(level.table)
            except TableMissing:
                return found
            stale = self._stale(level, source, table, organization)
            gone = _expired_ranges(level, definition, kept_since)
            covered = _whole_windows(_subtract_ranges(EVERYTHING, uncovered | stale | gone), level.micros)
            if not covered:
                return found
            found.append(Coverage(level.table, level.seconds, covered.parts, partial(_is_kept, definition)))
            uncovered = _subtract_ranges(EVERYTHING, covered)
        return found

    def _stale(self, level: Level, source: Table, table: Table, organization: str | None) -> Ranges:
        """Return `_stale_ranges`, cached while the metadata of the tables is the same."""
        key = (source.metadata_location, table.metadata_location, organization)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        stale = _stale_ranges(level, source, table, self._definition, organization)
        with self._lock:
            self._known[key] = stale
            while len(self._known) > MAX_CACHED:
                self._known.popitem(last=False)
        return stale


def _stale_ranges(
    level: Level, source: Table, table: Table, definition: Definition, organization: str | None
) -> Ranges:
    """Return the windows that are not closed, or that changed since the level's last run."""
    position = Position.load(table, ROLLUP)
    if position is None or position.definition != definition.fingerprint:
        return EVERYTHING
    changes = find_changes(source, position.snapshot)
    if changes.gap:
        return EVERYTHING
    came = _touched_ranges(source, changes.snapshots, level.micros, organization)
    foreign = [one for one in walk_history(table) if read_summary(one).get(STREAM) != ROLLUP]
    changed = _touched_ranges(table, foreign, level.micros, organization)
    came = came.widen(after=_lookback_micros(level, definition))
    return Ranges.of([(position.closed_until, END)]) | came | changed


def _expired_ranges(level: Level, definition: Definition, kept_since: KeptSince) -> Ranges:
    """Return the windows that retention may have deleted points or rows of; late points no longer change them."""
    points = kept_since(level.source)
    first = points if points == BEGINNING else points + _lookback_micros(level, definition)
    return Ranges.of([(BEGINNING, max(first, kept_since(level.table)))])


def _lookback_micros(level: Level, definition: Definition) -> int:
    return definition.lookback_micros if level is LEVELS[0] else 0


def _touched_ranges(table: Table, snapshots: Iterable[Snapshot], micros: int, organization: str | None) -> Ranges:
    from neve.lake.read.incremental import find_touched_windows  # noqa: PLC0415 - as above

    touched = find_touched_windows(table, snapshots, micros)
    return touched.all if organization is None else touched.of(organization)


def _subtract_ranges(ranges: Ranges, taken: Ranges) -> Ranges:
    """Return the ranges without the others."""
    edges = [BEGINNING, *(edge for part in taken for edge in part), END]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return Ranges.of(part for start, end in gaps for part in ranges.within(start, end))


def _whole_windows(ranges: Ranges, micros: int) -> Ranges:
    """Return the windows that are entirely inside the ranges."""
    return _subtract_ranges(EVERYTHING, _subtract_ranges(EVERYTHING, ranges).align(micros))


def _is_kept(definition: Definition, metric: str, column: str, key: str) -> bool:
    rule = definition.rules[definition.rule_of(metric)]
    return keeps(rule.attributes if column == "attributes" else rule.resource_attributes, key)


def build_coverage(settings: Settings) -> FindCoverage:
    """Build the function that finds the rollups for a query of an organization."""
    coverage = RollupCoverage(settings.rollup)

    def find_coverage(look: CatalogView, organization: str) -> list[Coverage]:
        now = now_utc()
        return coverage(look, organization, lambda table: frozen_by_retention(settings, table, now)(organization))

    return find_coverage
