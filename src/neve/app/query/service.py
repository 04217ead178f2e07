"""The query service wired from the settings: rollup coverage, the search index, limits and keys.

A process that runs one short query imports neither of the first two: they are built when a statement needs them.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

from neve.app.wiring import build_documents
from neve.lake.calendar import now_utc
from neve.query.config import check_query
from neve.query.daily_usage import DailyUsage
from neve.query.planning.file_planner import FilePlanner
from neve.query.service import Ports, QueryService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from neve.app.rollup import FindCoverage
    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.query.planning.file_planner import PlannedFile, Tokens
    from neve.query.request import QueryLogEntry
    from neve.query.rollup_routing.router import Coverage
    from neve.query.service import LimitsOf
    from neve.query.tables import CatalogView
    from neve.receive.authentication import Guard
    from neve.search.config import SearchConfig
    from neve.search.lookup import SearchIndex
    from neve.state.documents import Documents
    from neve.state.sessions import Sessions


SWITCH_SECONDS = 0.001  # the longest wait of threads that plan short queries while another one parses a long statement


def build_query_service(
    settings: Settings,
    lake: Lake,
    *,
    limits: LimitsOf | None = None,
    ports: Ports | None = None,
    log: Callable[[QueryLogEntry], None] = lambda _entry: None,
) -> QueryService:
    """Build the query service of a lake.

    Without `limits`, the configured ones apply. `ports` are the engine, the daily usage and the meter of a server.
    Without them, DuckDB runs in this process, and there are no metrics.
    """

    @cache
    def load_coverage() -> FindCoverage:
        from neve.app.rollup import build_coverage  # noqa: PLC0415 - for queries of metrics

        return build_coverage(settings)

    def find_coverage(look: CatalogView, organization: str) -> list[Coverage]:
        return load_coverage()(look, organization)

    def load_index() -> SearchIndex:
        from neve.app.search import build_search_index  # noqa: PLC0415 - for queries of words

        return build_search_index(lake)

    planner = FilePlanner(SearchIndexFilter(load_index, settings.search))
    ports = replace(ports or Ports(), coverages=find_coverage, planner=planner)
    return QueryService(lake, settings.query, limits=limits, ports=ports, log=log)


@dataclass(frozen=True)
class SearchIndexFilter:
    """Adapter of the search index for the planner. It loads the index with the first statement that needs it."""

    load_index: Callable[[], SearchIndex]
    config: SearchConfig

    @cached_property
    def index(self) -> SearchIndex:
        """The search index."""
        return self.load_index()

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
    documents: Documents
    sessions: Sessions | None = None  # none if no keys are required


@asynccontextmanager
async def query_parts(settings: Settings, lake: Lake) -> AsyncIterator[QueryParts]:
    """Open the query service without a server; at the end running queries are cancelled and the log is written."""
    from neve.app.serve.guards import session_guard  # noqa: PLC0415 - for servers, as the following
    from neve.query.engine.worker_pool import WorkerPool  # noqa: PLC0415
    from neve.query.metrics import PrometheusMeter  # noqa: PLC0415
    from neve.query.query_log import QueryLog  # noqa: PLC0415
    from neve.receive.authentication import OpenGuard  # noqa: PLC0415

    check_query(settings.query)
    sys.setswitchinterval(SWITCH_SECONDS)
    log = QueryLog(lake, settings.query.log_seconds) if settings.query.log else None
    documents = build_documents(settings)
    service = build_query_service(
        settings,
        lake,
        ports=Ports(
            engine=WorkerPool(lake, settings.query), usage=DailyUsage(documents, now_utc), meter=PrometheusMeter()
        ),
        log=log or (lambda _entry: None),
    )
    with ExitStack() as keys:
        guard: Guard = OpenGuard(settings.organization, admin=settings.query.open_admin)
        sessions = None
        if settings.query.auth == "keys":
            guard, sessions = session_guard(settings, documents, keys)
        try:
            yield QueryParts(service, guard, documents, sessions)
        finally:
            service.close()
            if log is not None:
                log.close()
            documents.close()
