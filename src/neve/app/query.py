"""Queries as the settings describe them: with rollups, with the search index, with limits or without."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.app.coverage import Coverages
from neve.app.rollup import frozen_by_retention
from neve.app.search import build_search_index
from neve.app.wiring import build_documents
from neve.lake.calendar import now_utc
from neve.lake.keys import Keys
from neve.lake.state import State
from neve.query.config import check_query
from neve.query.engine.pool import WorkerPool
from neve.query.log import QueryLog
from neve.query.scan.files import Planner
from neve.query.service import Ports, QueryService
from neve.query.usage import DailyUsage
from neve.receive.keys import KeyDoor, OpenDoor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.query.entry import Entry
    from neve.query.loading import Look
    from neve.query.rolled.route import Coverage
    from neve.query.scan.files import PlannedFile, Tokens
    from neve.query.service import Engine, LimitsOf
    from neve.receive.keys import Guard
    from neve.search.config import SearchConfig
    from neve.search.lookup import SearchIndex


SWITCH_SECONDS = 0.001  # threads that plan short queries wait so long for one that reads a long statement


def build_query_service(
    settings: Settings,
    lake: Lake,
    *,
    limits: LimitsOf | None = None,
    engine: Engine | None = None,
    usage: DailyUsage | None = None,
    log: Callable[[Entry], None] = lambda _entry: None,
) -> QueryService:
    """The service of a lake; without `limits`, those of the settings, and without `engine`, DuckDB in this process."""
    coverages = Coverages(settings.rollup)

    def covered(look: Look, organization: str) -> list[Coverage]:
        now = now_utc()
        return coverages(look, organization, lambda table: frozen_by_retention(settings, table, now)(organization))

    planner = Planner(SearchedFiles(build_search_index(lake), settings.search))
    ports = Ports(covered, planner, engine, usage)
    return QueryService(lake, settings.query, limits=limits, ports=ports, log=log)


@dataclass(frozen=True)
class SearchedFiles:
    """The search index as the planner asks it."""

    index: SearchIndex
    config: SearchConfig

    def __call__(
        self, table: str, organization: str, files: Sequence[PlannedFile], tokens: Tokens
    ) -> list[PlannedFile]:
        """The files that may hold the words, and the rows of them that may; all of a file that is not indexed."""
        indexed = self.config.tables.get(table, ())
        known = tuple((column, words) for column, words in tokens if column in indexed)
        if not known:
            return list(files)
        found = self.index.matching(table, organization, [file.path for file in files], known)
        return [
            file if (spans := found.get(file.path)) is None else replace(file, ranges=spans)
            for file in files
            if found.get(file.path) != ()
        ]


@dataclass(frozen=True)
class QueryParts:
    """What the door of queries needs."""

    service: QueryService
    guard: Guard


@asynccontextmanager
async def query_parts(settings: Settings, lake: Lake) -> AsyncIterator[QueryParts]:
    """Queries without a door; at the end, what runs is cancelled and the log is written."""
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
    state = State(settings.state)
    keys = settings.query.auth == "keys"
    try:
        yield QueryParts(
            service,
            KeyDoor(Keys(state), settings.receiver.key_seconds)
            if keys
            else OpenDoor(settings.organization, admin=settings.query.open_admin),
        )
    finally:
        service.close()
        if log is not None:
            log.close()
        documents.close()
        state.close()
