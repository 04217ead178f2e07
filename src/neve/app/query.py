"""The query service wired from the settings: rollup coverage, the search index, limits and keys.

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

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from neve.app.rollup import frozen_by_retention
from neve.app.search import build_search_index
from neve.app.wiring import build_documents
from neve.errors import TableMissing
from neve.lake.calendar import now_utc
from neve.lake.read.history import read_summary, walk_history
from neve.lake.read.incremental import find_touched_windows
from neve.lake.read.positions import find_changes
from neve.lake.time_ranges import BEGINNING, END, EVERYTHING, NO_TIME, Ranges
from neve.model.commits import STREAM
from neve.model.levels import LEVELS
from neve.query.config import check_query
from neve.query.daily_usage import DailyUsage
from neve.query.planning.file_planner import FilePlanner
from neve.query.rollup_routing.router import Coverage
from neve.query.service import Ports, QueryService
from neve.rollup.definition import Definition, keeps
from neve.rollup.position import ROLLUP, Position

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.model.levels import Level
    from neve.query.planning.file_planner import PlannedFile, Tokens
    from neve.query.request import QueryLogEntry
    from neve.query.service import Engine, LimitsOf
    from neve.query.tables import CatalogView
    from neve.receive.authentication import Guard
    from neve.rollup.config import RollupConfig
    from neve.search.config import SearchConfig
    from neve.search.lookup import SearchIndex


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


SWITCH_SECONDS = 0.001  # the longest wait of threads that plan short queries while another one parses a long statement


def build_query_service(
    settings: Settings,
    lake: Lake,
    *,
    limits: LimitsOf | None = None,
    engine: Engine | None = None,
    usage: DailyUsage | None = None,
    log: Callable[[QueryLogEntry], None] = lambda _entry: None,
) -> QueryService:
    """Build the query service of a lake.

    Without `limits`, the configured ones apply. Without `engine`, DuckDB runs in this process.
    """
    coverages = RollupCoverage(settings.rollup)

    def find_coverage(look: CatalogView, organization: str) -> list[Coverage]:
        now = now_utc()
        return coverages(look, organization, lambda table: frozen_by_retention(settings, table, now)(organization))

    planner = FilePlanner(SearchIndexFilter(build_search_index(lake), settings.search))
    ports = Ports(find_coverage, planner, engine, usage)
    return QueryService(lake, settings.query, limits=limits, ports=ports, log=log)


@dataclass(frozen=True)
class SearchIndexFilter:
    """Adapter of the search index for the planner."""

    index: SearchIndex
    config: SearchConfig

    def __call__(
        self, table: str, organization: str, files: Sequence[PlannedFile], tokens: Tokens
    ) -> list[PlannedFile]:
        """Return the files and row ranges that may contain the words; a file without an index is returned whole."""
        indexed = self.config.tables.get(table, ())
        known = tuple((column, words) for column, words in tokens if column in indexed)
        if not known:
            return list(files)
        found = self.index.find_rows(table, organization, [file.path for file in files], known)
        return [
            file if (spans := found.get(file.path)) is None else replace(file, ranges=spans)
            for file in files
            if found.get(file.path) != ()
        ]


@dataclass(frozen=True)
class QueryParts:
    """The dependencies of the query server."""

    service: QueryService
    guard: Guard


@asynccontextmanager
async def query_parts(settings: Settings, lake: Lake) -> AsyncIterator[QueryParts]:
    """Open the query service without a server; at the end running queries are cancelled and the log is written."""
    from neve.app.serve.guards import keys_guard  # noqa: PLC0415 - for servers, as the following
    from neve.query.engine.worker_pool import WorkerPool  # noqa: PLC0415
    from neve.query.query_log import QueryLog  # noqa: PLC0415
    from neve.receive.authentication import OpenGuard  # noqa: PLC0415

    check_query(settings.query)
    sys.setswitchinterval(SWITCH_SECONDS)
    log = QueryLog(lake, settings.query.log_seconds) if settings.query.log else None
    documents = build_documents(settings)
    service = build_query_service(
        settings,
        lake,
        engine=WorkerPool(lake, settings.query),
        usage=DailyUsage(documents, now_utc),
        log=log or (lambda _entry: None),
    )
    with ExitStack() as keys:
        if settings.query.auth == "keys":
            guard = keys_guard(settings, keys)
        else:
            guard = OpenGuard(settings.organization, admin=settings.query.open_admin)
        try:
            yield QueryParts(service, guard)
        finally:
            service.close()
            if log is not None:
                log.close()
            documents.close()
