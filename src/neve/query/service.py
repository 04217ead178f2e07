"""The query service: every query of a process runs through it, from the API and from the command line."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from neve.errors import LimitExceeded, QueryError
from neve.lake.calendar import now_utc
from neve.predicate.duckdb_constants import time_zones
from neve.query.cache import CacheKey, ResultCache
from neve.query.daily_usage import DailyUsage
from neve.query.engine.duckdb import DUCKDB, DuckEngine
from neve.query.engine.spark import SPARK, SparkEngine
from neve.query.engine_errors import FilesMissing, planning_errors
from neve.query.execution import CollectingRun, RowLimitRun, RunningQuery, StoredRun
from neve.query.limits import REFUSED, AdmissionGate, Limits, limits_for
from neve.query.planning.file_planner import FilePlanner
from neve.query.planning_turns import PAUSE_FACTOR, PlanningTurns
from neve.query.program_planner import ProgramPlanner
from neve.query.query_plan import (
    MeasuredRun,
    PlanSources,
    describe_table,
    drop_unreadable_files,
    explain_plan,
    plan_query,
    show_tables,
    table_version,
)
from neve.query.request import UTC_ZONE, Request, Statistics
from neve.query.sql.pivots import fill_pivots, values_statement
from neve.query.sql.statement import parse
from neve.query.tables import LakeTables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig
    from neve.query.engine.duckdb import Write
    from neve.query.engine.program import PlanStatement, Program
    from neve.query.execution import Run
    from neve.query.query_plan import CoveragesOf, QueryPlan
    from neve.query.request import QueryLogEntry
    from neve.query.sql.duckdb_statement import DuckDBStatement
    from neve.query.sql.pivots import OpenPivot
    from neve.query.sql.statement import Statement
    from neve.query.tables import CatalogView, TableFacts


REMEMBERED = 1000  # finished queries whose state clients can request
ATTEMPTS = 3  # if files disappear during a query: expiry removed its snapshot

LimitsOf = Callable[[str, str], Limits]


class Engine(Protocol):
    """A DuckDB engine, in this process or in others."""

    def run(self, write: Write, limits: Limits, organization: str = "") -> Run:
        """Return a run of a statement, within limits."""

    def run_program(self, program: Program, plan: PlanStatement, limits: Limits, organization: str = "") -> Run:
        """Return a run of a program, within limits. `plan` plans its statements."""

    def close(self) -> None:
        """Close the engine."""


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
        self._config = config
        self._limits = limits or (lambda organization, key_id: limits_for(config, organization, key_id))
        self._log = log
        planner = ports.planner or FilePlanner()
        self._tables = LakeTables(lake, planner)
        self._sources = PlanSources(self._tables, planner, ports.coverages)
        self._duck: Engine = ports.engine or DuckEngine(lake, config)
        self._usage = ports.usage or DailyUsage(None, now_utc)
        self._spark = SparkEngine(lake)
        self._cache = ResultCache(config.cache_bytes, config.cache_seconds)
        self._gate = AdmissionGate(config.concurrency, config.queue_seconds)
        self._known: OrderedDict[str, RunningQuery] = OrderedDict()
        self._turns = PlanningTurns(0.0 if limits is no_limits else PAUSE_FACTOR)
        self._lock = threading.Lock()

    def start(self, request: Request) -> RunningQuery:
        """Run a request. Blocks until its first rows are available."""
        return self._admit(request, self._answer)

    def start_program(self, request: Request, program: Program) -> RunningQuery:
        """Run a program, for example in another language than SQL. Blocks until its first rows are available.

        `request.sql` is the text for the query log. All statements of the program read the same snapshots.
        """
        return self._admit(request, lambda running, limits: self._answer_program(running, program, limits))

    def _admit(self, request: Request, answer: Callable[[RunningQuery, Limits], None]) -> RunningQuery:
        """Wait for a place, then answer a request within its limits."""
        limits = self._limits(request.organization, request.key_id)
        who = (request.organization, request.key_id)
        try:
            self._gate.enter(who, limits)
        except LimitExceeded as error:
            REFUSED.labels(error.limit).inc()
            RunningQuery(request, Limits(), self._log).fail(error)
            raise
        running = RunningQuery(request, limits, lambda entry: self._end(entry, who))
        self._remember(running)
        try:
            answer(running, limits)
        except Exception as error:
            if isinstance(error, LimitExceeded):
                REFUSED.labels(error.limit).inc()
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
        self._duck.close()
        self._usage.flush()

    def _answer(self, running: RunningQuery, limits: Limits) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._turns.measure(running.organization), planning_errors():
                    statement = self._parse(running)
                    schemas = statement.schemas
                    running.columns = {name: schemas[name].names for name in statement.tables if name in schemas}
                    prepared = None if statement.open_pivots else self._plan(running, statement)
                if prepared is None:
                    prepared = self._plan_pivots(running, statement, limits)
                running.statistics = prepared.statistics
                running.normalised, running.tables = statement.normalised, prepared.statement.tables
                self._begin(running, prepared, limits)
            except FilesMissing:
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    def _answer_program(self, running: RunningQuery, program: Program, limits: Limits) -> None:
        running.tables, running.is_program = program.tables, True
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._begin_program(running, program, limits)
            except FilesMissing:
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    def _begin_program(self, running: RunningQuery, program: Program, limits: Limits) -> None:
        with self._turns.measure(running.organization), planning_errors():
            look = self._tables.look()
            asked = self._program_key(running, program, look)
        kept = self._cache.get(asked) if asked is not None else None
        if kept is not None:
            running.statistics = replace(kept.statistics, cache="hit", rows=0)
            return running.begin(StoredRun(kept.table))
        running.statistics = Statistics(engine=DUCKDB, cache="off" if asked is None else "miss")
        planner = ProgramPlanner(
            running,
            lambda request: self._plan_within(running, request, look),
            lambda plan: self._charge(running, plan, limits),
            lambda cpu_seconds: self._turns.charge(running.organization, cpu_seconds),
        )
        run: Run = self._duck.run_program(
            program, lambda wanted: self._measured(planner.plan(wanted), running), limits, running.organization
        )
        if asked is not None:  # the statistics are complete when the result is
            put = self._cache.put
            run = CollectingRun(run, self._cache.largest, lambda table: put(asked, table, running.statistics))
        running.begin(run)
        return None

    def _plan_within(self, running: RunningQuery, request: Request, look: CatalogView) -> QueryPlan:
        """Plan a statement of a running program, whose planner measures the CPU time of all of them together."""
        with planning_errors():
            statement = self._parse(running, request)
            return plan_query(request, statement, self._config, self._sources, running.check, look)

    def _program_key(self, running: RunningQuery, program: Program, look: CatalogView) -> CacheKey | None:
        if running.request.fresh or not self._config.cache_bytes or program.cache_text is None:
            return None
        versions = tuple((name, table_version(look.table(name))) for name in sorted(program.tables))
        return CacheKey(
            running.organization, f"{program.function} {program.cache_text}", versions, ("", ""), running.request.limit
        )

    def _parse(self, running: RunningQuery, request: Request | None = None) -> Statement:
        request = request or running.request
        _check_time_zone(request.time_zone)
        with self._turns.take(request.organization, running.pause):
            return parse(request.sql, self._tables.schemas(), request.parameters)

    def _plan(self, running: RunningQuery, statement: Statement, look: CatalogView | None = None) -> QueryPlan:
        return plan_query(running.request, statement, self._config, self._sources, running.check, look)

    def _plan_pivots(self, running: RunningQuery, statement: Statement, limits: Limits) -> QueryPlan:
        """Read the values of each PIVOT that has none, then plan the statement with them, at the same snapshots.

        EXPLAIN reads nothing, and shows a plan with one value.
        """
        with planning_errors():
            look = self._tables.look()
        earlier = Statistics()
        while open_pivots := statement.open_pivots:
            if statement.explain == "plan":
                statement = fill_pivots(statement, dict.fromkeys(open_pivots, ("value",)))
                continue
            values: dict[OpenPivot, list[str]] = {}
            for one in open_pivots:
                reading = values_statement(statement, one)
                if reading is None:
                    continue
                with self._turns.measure(running.organization), planning_errors():
                    plan = self._plan(running, reading, look)
                values[one], plan = self._read_values(running, plan.after(earlier), limits, statement)
                earlier = plan.statistics
            if not values:
                raise QueryError("a PIVOT needs its values here", hint="PIVOT … ON column IN ('a', 'b') USING …")
            with self._turns.measure(running.organization):
                statement = fill_pivots(statement, values)
        note = "the values of PIVOT are read first, by a statement of their own"
        with self._turns.measure(running.organization), planning_errors():
            return self._plan(running, statement, look).after(replace(earlier, notes=(note,)))

    def _read_values(
        self, running: RunningQuery, plan: QueryPlan, limits: Limits, statement: Statement
    ) -> tuple[list[str], QueryPlan]:
        """Return the values of a PIVOT and the plan that was run, from the cache if it has them."""
        if plan.statistics.engine == SPARK:
            raise _not_for_spark(plan, statement)
        if running.request.partial:
            plan = drop_unreadable_files(plan)
        asked = None if running.request.fresh or not self._config.cache_bytes else plan.asked
        kept = self._cache.get(asked) if asked is not None else None
        if kept is not None:
            return kept.table.column(0).to_pylist(), plan
        running.statistics = plan.statistics
        self._charge(running, plan, limits)
        table = running.collect(self._engine_run(running, plan, limits))
        if asked is not None and not plan.statistics.partial:
            self._cache.put(asked, table, plan.statistics)
        return table.column(0).to_pylist(), plan

    def _charge(self, running: RunningQuery, prepared: QueryPlan, limits: Limits) -> None:
        """Check the limit of bytes, and count those that this statement reads."""
        _check_scan_bytes(prepared, limits)
        own = prepared.statistics.bytes - prepared.earlier_bytes
        self._usage.charge((running.organization, running.key_id), own, limits)

    def _begin(self, running: RunningQuery, prepared: QueryPlan, limits: Limits) -> None:
        statement = prepared.statement
        if statement.kind == "describe":
            facts = self._tables.facts(statement.described, running.organization)
            return running.begin(StoredRun(describe_table(facts, self._tables.schemas()[facts.name])))
        if statement.kind == "tables":
            return running.begin(StoredRun(show_tables(self._tables.names())))
        if statement.explain == "plan":
            return running.begin(StoredRun(explain_plan(prepared)))
        if running.request.partial:
            prepared = drop_unreadable_files(prepared)
            running.statistics = prepared.statistics
        asked = None if running.request.fresh or not self._config.cache_bytes else prepared.asked
        kept = self._cache.get(asked) if asked is not None else None
        if kept is not None:
            running.statistics = replace(kept.statistics, cache="hit", rows=0)
            return running.begin(StoredRun(kept.table))
        self._charge(running, prepared, limits)
        running.statistics = replace(prepared.statistics, cache="miss" if asked is not None else "off")
        run = self._engine_run(running, prepared, limits)
        if statement.explain == "analyze":
            return running.begin(MeasuredRun(prepared, run))
        if asked is not None and not prepared.statistics.partial:
            statistics = running.statistics
            run = CollectingRun(run, self._cache.largest, lambda table: self._cache.put(asked, table, statistics))
        self._begin_or_elsewhere(running, prepared, run)
        return None

    def _begin_or_elsewhere(self, running: RunningQuery, prepared: QueryPlan, run: Run) -> None:
        """Begin a run. If DuckDB lacks the memory for it, begin it on Spark, unless it reads no files."""
        try:
            running.begin(run)
        except LimitExceeded as error:
            is_ours = error.limit == "memory" and self._config.spark_bytes and not prepared.statement.not_portable
            is_ours = is_ours and running.request.time_zone == UTC_ZONE
            if not is_ours or not prepared.statistics.bytes or running.statistics.engine != DUCKDB:
                raise
            notes = (*running.statistics.notes, "DuckDB ran out of memory")
            running.statistics = replace(running.statistics, engine=SPARK, notes=notes)
            running.begin(self._spark_run(running, prepared))

    def _engine_run(self, running: RunningQuery, prepared: QueryPlan, limits: Limits) -> Run:
        if running.statistics.engine == DUCKDB:
            limits = replace(limits, used_cpu_seconds=running.used_cpu_seconds)
            return self._duck.run(self._measured(prepared.duckdb, running), limits, running.organization)
        if prepared.statement.not_portable or running.request.time_zone != UTC_ZONE:
            raise _not_for_spark(prepared, prepared.statement)
        return self._spark_run(running, prepared)

    def _measured(self, write: Write, running: RunningQuery) -> Write:
        """Count the CPU time of writing a statement as planning; running it in this process is not."""

        def measured(root: str) -> DuckDBStatement:
            with self._turns.measure(running.organization):
                return write(root)

        return measured

    def _spark_run(self, running: RunningQuery, prepared: QueryPlan) -> Run:
        """Return a run on Spark with one row more than is sent, which shows that a result is too long."""
        most = self._config.spark_result_rows
        wanted = min(filter(None, (running.request.limit, running.most_rows, most)))
        run = self._spark.run(prepared.spark(self._spark), wanted + 1, running.check)
        return RowLimitRun(run, most, "query.spark_result_rows") if wanted == most else run

    def _remember(self, running: RunningQuery) -> None:
        with self._lock:
            self._known[running.id] = running
            ended = [one.id for one in self._known.values() if one.state != "running"]
            for query_id in ended[: max(0, len(self._known) - REMEMBERED)]:
                del self._known[query_id]

    def _end(self, entry: QueryLogEntry, who: tuple[str, str]) -> None:
        self._gate.leave(who)
        self._log(entry)


def _check_time_zone(name: str) -> None:
    if name != UTC_ZONE and name not in time_zones():
        near = get_close_matches(name[:64], sorted(time_zones()), n=1)
        raise QueryError(
            f"the time zone is {name[:64]!r}, expected a name such as Europe/Berlin",
            hint=f"did you mean {near[0]}?" if near else None,
        )


def _not_for_spark(prepared: QueryPlan, statement: Statement) -> QueryError:
    why = statement.not_portable or "a time zone other than UTC"
    return QueryError(
        f"Spark has to run this query ({'; '.join(prepared.statistics.notes)}), but can't: {why}",
        hint="narrow the time range, or write the query in another way",
    )


def _check_scan_bytes(prepared: QueryPlan, limits: Limits) -> None:
    if limits.scan_bytes is not None and prepared.statistics.bytes > limits.scan_bytes:
        raise LimitExceeded(
            f"the query would read {prepared.statistics.bytes:,} bytes of files, {limits.scan_bytes:,} are allowed",
            limit="scan_bytes",
            hint="narrow the time range, or add a condition on a column of the partition",
        )


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
