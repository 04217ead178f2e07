"""The query service: every query of a process runs through it, from the API and from the command line."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.errors import LimitExceeded
from neve.lake.calendar import now_utc
from neve.query.cache import ResultCache
from neve.query.daily_usage import DailyUsage
from neve.query.engine.duckdb import DuckEngine
from neve.query.engine.spark import SparkEngine
from neve.query.execution import RunningQuery
from neve.query.limits import AdmissionGate, Limits, QueryMeter, limits_for
from neve.query.planning.file_planner import FilePlanner
from neve.query.planning_turns import CORE_SHARE, PlanningTurns
from neve.query.program_runner import ProgramRunner
from neve.query.query_plan import PlanSources
from neve.query.request import Request
from neve.query.statement_runner import StatementRunner
from neve.query.tables import LakeTables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig
    from neve.query.engine.program import CurrentRollup, Program
    from neve.query.query_plan import CoveragesOf
    from neve.query.request import QueryLogEntry
    from neve.query.statement_runner import Engine
    from neve.query.tables import TableFacts


REMEMBERED = 1000  # queries whose state clients can request, also after they have ended
REMEMBERED_CHARACTERS = 10_000_000  # of their statements

LimitsOf = Callable[[str, str], Limits]


def no_limits(_organization: str, _key_id: str) -> Limits:
    """Return no limits, for the owner of the process."""
    return Limits()


@dataclass(frozen=True)
class Ports:
    """Dependencies of a service beyond the lake's tables. The default is DuckDB in this process without rollups."""

    coverages: CoveragesOf = lambda _look, _organization: ()
    planner: FilePlanner | None = None
    engine: Engine | None = None
    usage: DailyUsage | None = None
    meter: QueryMeter = field(default_factory=QueryMeter)


class QueryService:
    """Service with blocking, thread-safe methods. API handlers call it in threads."""

    def __init__(
        self,
        lake: Lake,
        config: QueryConfig,
        *,
        limits: LimitsOf | None = None,
        ports: Ports | None = None,
        log: Callable[[QueryLogEntry], None] = lambda _entry: None,
    ) -> None:
        ports = ports or Ports()
        self._limits = limits or (lambda organization, key_id: limits_for(config, organization, key_id))
        self._log = log
        planner = ports.planner or FilePlanner()
        self._tables = LakeTables(lake, planner)
        self._statements = StatementRunner(
            config=config,
            sources=PlanSources(self._tables, planner, ports.coverages),
            duckdb=ports.engine or DuckEngine(lake, config),
            spark=SparkEngine(lake),
            cache=ResultCache(config.cache_bytes, config.cache_seconds),
            usage=ports.usage or DailyUsage(None, now_utc),
            turns=PlanningTurns(None if limits is no_limits else CORE_SHARE),
        )
        self._programs = ProgramRunner(self._statements)
        self._meter = ports.meter
        self._gate = AdmissionGate(config.concurrency, config.queue_seconds, self._meter)
        self._known: OrderedDict[str, RunningQuery] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, request: Request) -> RunningQuery:
        """Run a request. Blocks until its first rows are available."""
        return self._admit(request, self._statements.begin)

    def start_program(self, request: Request, program: Program) -> RunningQuery:
        """Run a program, for example in another language than SQL. Blocks until its first rows are available.

        `request.sql` is the text for the query log. All statements of the program read the same snapshots.
        """
        return self._admit(request, lambda running, limits: self._programs.begin(running, program, limits))

    def list_rollups(self, organization: str) -> list[CurrentRollup]:
        """Return the rollups of an organization that are current, for languages that read them themselves."""
        return self._programs.list_rollups(self._tables.look(), organization)

    def _admit(self, request: Request, answer: Callable[[RunningQuery, Limits], None]) -> RunningQuery:
        """Wait for a place, then answer a request within its limits."""
        limits = self._limits(request.organization, request.key_id)
        who = (request.organization, request.key_id)
        try:
            self._gate.enter(who, limits)
        except LimitExceeded as error:
            self._meter.count_refused(error.limit)
            RunningQuery(request, Limits(), self._log).fail(error)
            raise
        running = RunningQuery(request, limits, lambda entry: self._end(entry, who))
        self._remember(running)
        try:
            answer(running, limits)
        except Exception as error:
            if isinstance(error, LimitExceeded):
                self._meter.count_refused(error.limit)
            running.fail(error)
            raise
        return running

    def limits_of(self, organization: str, key_id: str) -> Limits:
        """Return the limits of a key."""
        return self._limits(organization, key_id)

    def find(self, query_id: str, organization: str) -> RunningQuery | None:
        """Return a query that runs or has ended recently."""
        with self._lock:
            running = self._known.get(query_id)
        return running if running is not None and running.organization == organization else None

    def running(self, organization: str) -> tuple[RunningQuery, ...]:
        """Return the running queries of an organization."""
        with self._lock:
            known = tuple(self._known.values())
        return tuple(one for one in known if one.organization == organization and one.state == "running")

    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the columns of each table."""
        return self._tables.schemas()

    def has_rows(self, name: str) -> bool:
        """Return whether a table exists and has ever had rows."""
        return name in self.schemas() and self._tables.look().table(name).metadata.current_snapshot_id is not None

    def tables(self, organization: str) -> tuple[TableFacts, ...]:
        """Return all tables, as an organization sees them."""
        return tuple(self._tables.facts(name, organization) for name in self._tables.names())

    def describe(self, name: str, organization: str) -> TableFacts:
        """Return one table, as an organization sees it."""
        return self._tables.facts(name, organization)

    def close(self) -> None:
        """End running queries."""
        with self._lock:
            known = tuple(self._known.values())
        for one in known:
            one.cancel()
        self._statements.duckdb.close()
        self._statements.usage.flush()

    def _remember(self, running: RunningQuery) -> None:
        with self._lock:
            self._known[running.id] = running
            characters = sum(len(one.sql) for one in self._known.values())
            for ended in [one for one in self._known.values() if one.state != "running"]:
                if len(self._known) <= REMEMBERED and characters <= REMEMBERED_CHARACTERS:
                    break
                del self._known[ended.id]
                characters -= len(ended.sql)

    def _end(self, entry: QueryLogEntry, who: tuple[str, str]) -> None:
        self._gate.leave(who)
        self._log(entry)


def run_query(lake: Lake, config: QueryConfig, sql: str, organization_id: str) -> pa.RecordBatchReader:
    """Run one statement. Every table name refers to the organization's rows of that table."""
    service = QueryService(lake, config, limits=no_limits)
    try:
        running = service.start(Request(sql, organization_id))
    except BaseException:
        service.close()
        raise

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from running.batches()
        finally:
            service.close()

    return pa.RecordBatchReader.from_batches(running.schema, batches())
