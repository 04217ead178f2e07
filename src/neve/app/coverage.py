"""Which time of each rollup is final and up to date with the points, so that queries may read it in their place.

Windows count from the beginning up to where their level was closed, but not those that

- commits of the source touched since the level's last run, with the look-back after them, as the next run would
  compute them anew;
- are not up to date in the level below;
- somebody else than the rollup changed in the level's own table, as far as its snapshots tell;
- retention may have taken points or rows of: rollups keep those windows, but points do not.

A level that was never run, that was made by other settings, or whose place in its source is gone covers nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from neve.errors import TableMissing
from neve.lake.changes import keeps_rows, said, snapshots_since
from neve.model.commits import STREAM
from neve.model.rollups import LEVELS
from neve.query.rolled.route import Coverage
from neve.rollup.definition import Definition, keeps
from neve.rollup.position import ROLLUP, Position
from neve.rollup.ranges import BEGINNING, END, EVERYTHING, NO_TIME, Ranges
from neve.rollup.touched import touched_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.model.rollups import Level
    from neve.rollup.config import RollupConfig

REMEMBERED = 1000  # levels of organizations
KeptSince = Callable[[str], int]  # the moment before which rows of a table may have been deleted for their age


def for_good(_table: str) -> int:
    """Nothing is deleted for its age."""
    return BEGINNING


class Tables(Protocol):
    """Whoever knows the tables: a lake, or one look at it."""

    def table(self, name: str) -> Table:
        """A table; raises `TableMissing`."""


class Coverages:
    """What rollups that are made by some settings cover; what changed since they were made is looked up once."""

    def __init__(self, config: RollupConfig) -> None:
        self._definition = Definition.of(config)
        self._known: OrderedDict[tuple[str, str, str | None], Ranges] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(
        self, tables: Tables, organization: str | None = None, kept_since: KeptSince = for_good
    ) -> list[Coverage]:
        """The levels that cover anything of an organization's time, the finest first; without one, of everybody's.

        Only metadata is read where nothing changed since the last run; else also the times in the files that came.
        """
        definition = self._definition
        found: list[Coverage] = []
        uncovered = NO_TIME  # of the level below
        for level in LEVELS:
            try:
                source, table = tables.table(level.source), tables.table(level.table)
            except TableMissing:
                return found
            stale = self._stale(level, source, table, organization)
            gone = _gone(level, definition, kept_since)
            covered = _whole(_less(EVERYTHING, uncovered | stale | gone), level.micros)
            if not covered:
                return found
            found.append(Coverage(level.table, level.seconds, covered.parts, partial(_is_kept, definition)))
            uncovered = _less(EVERYTHING, covered)
        return found

    def _stale(self, level: Level, source: Table, table: Table, organization: str | None) -> Ranges:
        """As `_stale` below; tables whose metadata is the same are not looked at again."""
        key = (source.metadata_location, table.metadata_location, organization)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        stale = _stale(level, source, table, self._definition, organization)
        with self._lock:
            self._known[key] = stale
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return stale


def _stale(level: Level, source: Table, table: Table, definition: Definition, organization: str | None) -> Ranges:
    """Windows that are not closed, or of which anything changed since the level's last run."""
    position = Position.of(table)
    if position is None or position.definition != definition.fingerprint:
        return EVERYTHING
    line = snapshots_since(source, position.snapshot)
    if line is None:
        return EVERYTHING
    came = _touched(source, line, level.micros, organization).widened(after=_lookback(level, definition))
    changed = _touched(table, _foreign(table), level.micros, organization)
    return Ranges.of([(position.closed_until, END)]) | came | changed


def _gone(level: Level, definition: Definition, kept_since: KeptSince) -> Ranges:
    """Windows whose points or rows may have been deleted for their age; late points do not change them any more."""
    points = kept_since(level.source)
    first = points if points == BEGINNING else points + _lookback(level, definition)
    return Ranges.of([(BEGINNING, max(first, kept_since(level.table)))])


def _lookback(level: Level, definition: Definition) -> int:
    return definition.lookback_micros if level is LEVELS[0] else 0


def _touched(table: Table, snapshots: Iterable[Snapshot], micros: int, organization: str | None) -> Ranges:
    touched = touched_by(table, snapshots, micros)
    return touched.all if organization is None else touched.of(organization)


def _foreign(table: Table) -> Iterator[Snapshot]:
    """The snapshots that led to the current one, as far as they are known, by which others changed rows."""
    known = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    snapshot = table.current_snapshot()
    while snapshot is not None:
        if not keeps_rows(snapshot) and said(snapshot).get(STREAM) != ROLLUP:
            yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = known.get(parent) if parent is not None else None


def _less(ranges: Ranges, taken: Ranges) -> Ranges:
    """What is left of ranges without others."""
    edges = [BEGINNING, *(edge for part in taken for edge in part), END]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return Ranges.of(part for start, end in gaps for part in ranges.within(start, end))


def _whole(ranges: Ranges, micros: int) -> Ranges:
    """The windows that lie in ranges with all of their time."""
    return _less(EVERYTHING, _less(EVERYTHING, ranges).aligned(micros))


def _is_kept(definition: Definition, metric: str, column: str, key: str) -> bool:
    rule = definition.rules[definition.rule_of(metric)]
    return keeps(rule.attributes if column == "attributes" else rule.resource_attributes, key)
