"""Run one SQL statement of a query: parse, plan, look into the cache, charge, and begin it on an engine."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol

from neve.errors import LimitExceeded, QueryError
from neve.predicate.duckdb_constants import time_zones
from neve.query.engine.duckdb import DUCKDB
from neve.query.engine.spark import SPARK
from neve.query.engine_errors import FilesMissing, planning_errors
from neve.query.query_plan import (
    MeasuredRun,
    describe_table,
    drop_unreadable_files,
    explain_plan,
    plan_query,
    show_tables,
)
from neve.query.request import UTC_ZONE, Statistics
from neve.query.runs import CollectingRun, RowLimitRun, StoredRun
from neve.query.sql.dialect import unlink
from neve.query.sql.pivots import fill_pivots, values_statement
from neve.query.sql.statement import parse, pin_clock
from neve.query.sql.templates import StatementTemplates

if TYPE_CHECKING:
    from neve.query.cache import ResultCache
    from neve.query.config import QueryConfig
    from neve.query.daily_usage import DailyUsage
    from neve.query.engine.duckdb import Write
    from neve.query.engine.program import PlanStatement, Program
    from neve.query.engine.spark import SparkEngine
    from neve.query.execution import RunningQuery
    from neve.query.limits import Limits
    from neve.query.planning_turns import PlanningTurns
    from neve.query.query_plan import PlanSources, QueryPlan
    from neve.query.request import Request
    from neve.query.runs import Run
    from neve.query.sql.duckdb_statement import DuckDBStatement
    from neve.query.sql.pivots import OpenPivot
    from neve.query.sql.statement import Statement
    from neve.query.tables import CatalogView


ATTEMPTS = 3  # if files disappear during a query: expiry removed its snapshot


class Engine(Protocol):
    """A DuckDB engine, in this process or in others."""

    def run(self, write: Write, limits: Limits, organization: str = "") -> Run:
        """Return a run of a statement, within limits."""

    def run_program(self, program: Program, plan: PlanStatement, limits: Limits, organization: str = "") -> Run:
        """Return a run of a program, within limits. `plan` plans its statements."""

    def close(self) -> None:
        """Close the engine."""


@dataclass(frozen=True)
class StatementRunner:
    """Runner of statements, with the tables, engines, cache and shares of planning time of one service."""

    config: QueryConfig
    sources: PlanSources
    duckdb: Engine
    spark: SparkEngine
    cache: ResultCache
    usage: DailyUsage
    turns: PlanningTurns
    templates: StatementTemplates = field(default_factory=StatementTemplates)

    def begin(self, running: RunningQuery, limits: Limits) -> None:
        """Begin the statement of a request. Blocks until its first rows are available."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._begin_statement(running, limits)
            except FilesMissing:
                if attempt == ATTEMPTS:
                    raise
        return None

    def _begin_statement(self, running: RunningQuery, limits: Limits) -> None:
        with ExitStack() as parsed:
            with self.turns.measure(running.organization), planning_errors():
                statement = self.parse(running)
                parsed.callback(unlink, statement.tree)
                schemas = statement.schemas
                running.columns = {name: schemas[name].names for name in statement.tables if name in schemas}
                prepared = None if statement.open_pivots else self._plan(running, statement)
            if prepared is None:
                prepared = self._plan_pivots(running, statement, limits)
            running.statistics = prepared.statistics
            running.normalised, running.tables = statement.normalised_sql, prepared.statement.tables
            self._begin_plan(running, prepared, limits)
            unlink(prepared.statement.tree)  # may be a copy; the engine has its text

    def parse(self, running: RunningQuery) -> Statement:
        """Parse the statement of a query, in the turn of its organization."""
        request = running.request
        _check_time_zone(request.time_zone)
        with self.turns.take(request.organization, running.pause):
            return parse(request.sql, self.sources.tables.schemas(), request.parameters)

    def parse_inner(self, running: RunningQuery, request: Request) -> Statement:
        """Parse a statement that a running program sends, in the turn of its organization."""
        _check_time_zone(request.time_zone)
        with self.turns.take(request.organization, running.pause):
            return self.templates.parse(request.sql, self.sources.tables.schemas(), request.parameters)

    def _plan(self, running: RunningQuery, statement: Statement, look: CatalogView | None = None) -> QueryPlan:
        statement = pin_clock(statement, running.started)
        return plan_query(running.request, statement, self.config, self.sources, running.check, look)

    def _plan_pivots(self, running: RunningQuery, statement: Statement, limits: Limits) -> QueryPlan:
        """Read the values of each PIVOT that has none, then plan the statement with them, at the same snapshots.

        EXPLAIN reads nothing, and shows a plan with one value.
        """
        with planning_errors():
            look = self.sources.tables.look()
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
                with self.turns.measure(running.organization), planning_errors():
                    plan = self._plan(running, reading, look)
                values[one], plan = self._read_values(running, plan.after(earlier), limits, statement)
                earlier = plan.statistics
            if not values:
                raise QueryError("a PIVOT needs its values here", hint="PIVOT … ON column IN ('a', 'b') USING …")
            with self.turns.measure(running.organization):
                statement = fill_pivots(statement, values)
        note = "the values of PIVOT are read first, by a statement of their own"
        with self.turns.measure(running.organization), planning_errors():
            return self._plan(running, statement, look).after(replace(earlier, notes=(note,)))

    def _read_values(
        self, running: RunningQuery, plan: QueryPlan, limits: Limits, statement: Statement
    ) -> tuple[list[str], QueryPlan]:
        """Return the values of a PIVOT and the plan that was run, from the cache if it has them."""
        if plan.statistics.engine == SPARK:
            raise _not_for_spark(plan, statement)
        if running.request.partial:
            plan = drop_unreadable_files(plan)
        asked = None if running.request.fresh or not self.config.cache_bytes else plan.cache_key
        kept = self.cache.get(asked) if asked is not None else None
        if kept is not None:
            return kept.table.column(0).to_pylist(), plan
        running.statistics = plan.statistics
        self.charge(running, plan, limits)
        table = running.collect(self._engine_run(running, plan, limits))
        if asked is not None and not plan.statistics.partial:
            self.cache.put(asked, table, plan.statistics)
        return table.column(0).to_pylist(), plan

    def charge(self, running: RunningQuery, prepared: QueryPlan, limits: Limits) -> None:
        """Check the limit of bytes, and count those that this statement reads."""
        _check_scan_bytes(prepared, limits)
        own = prepared.statistics.bytes - prepared.earlier_bytes
        self.usage.charge((running.organization, running.key_id), own, limits)

    def _begin_plan(self, running: RunningQuery, prepared: QueryPlan, limits: Limits) -> None:
        statement = prepared.statement
        if statement.kind == "describe":
            facts = self.sources.tables.facts(statement.described, running.organization)
            return running.begin(StoredRun(describe_table(facts, self.sources.tables.schemas()[facts.name])))
        if statement.kind == "tables":
            return running.begin(StoredRun(show_tables(self.sources.tables.names())))
        if statement.explain == "plan":
            return running.begin(StoredRun(explain_plan(prepared)))
        if running.request.partial:
            prepared = drop_unreadable_files(prepared)
            running.statistics = prepared.statistics
        asked = None if running.request.fresh or not self.config.cache_bytes else prepared.cache_key
        kept = self.cache.get(asked) if asked is not None else None
        if kept is not None:
            running.statistics = replace(kept.statistics, cache="hit", rows=0)
            return running.begin(StoredRun(kept.table))
        self.charge(running, prepared, limits)
        running.statistics = replace(prepared.statistics, cache="miss" if asked is not None else "off")
        run = self._engine_run(running, prepared, limits)
        if statement.explain == "analyze":
            return running.begin(MeasuredRun(prepared, run))
        if asked is not None and not prepared.statistics.partial:
            statistics = running.statistics
            run = CollectingRun(run, self.cache.largest, lambda table: self.cache.put(asked, table, statistics))
        self._begin_or_elsewhere(running, prepared, run)
        return None

    def _begin_or_elsewhere(self, running: RunningQuery, prepared: QueryPlan, run: Run) -> None:
        """Begin a run. If DuckDB lacks the memory for it, begin it on Spark, unless it reads no files."""
        try:
            running.begin(run)
        except LimitExceeded as error:
            is_ours = error.limit == "memory" and self.config.spark_bytes and not prepared.statement.not_portable
            is_ours = is_ours and running.request.time_zone == UTC_ZONE
            if not is_ours or not prepared.statistics.bytes or running.statistics.engine != DUCKDB:
                raise
            notes = (*running.statistics.notes, "DuckDB ran out of memory")
            running.statistics = replace(running.statistics, engine=SPARK, notes=notes)
            running.begin(self._spark_run(running, prepared))

    def _engine_run(self, running: RunningQuery, prepared: QueryPlan, limits: Limits) -> Run:
        if running.statistics.engine == DUCKDB:
            limits = replace(limits, used_cpu_seconds=running.used_cpu_seconds)
            return self.duckdb.run(self.measure_planning(prepared.duckdb, running), limits, running.organization)
        if prepared.statement.not_portable or running.request.time_zone != UTC_ZONE:
            raise _not_for_spark(prepared, prepared.statement)
        return self._spark_run(running, prepared)

    def measure_planning(self, write: Write, running: RunningQuery) -> Write:
        """Count the CPU time of writing a statement as planning; running it in this process is not."""

        def measure_write(root: str) -> DuckDBStatement:
            with self.turns.measure(running.organization):
                return write(root)

        return measure_write

    def _spark_run(self, running: RunningQuery, prepared: QueryPlan) -> Run:
        """Return a run on Spark with one row more than is sent, which shows that a result is too long."""
        most = self.config.spark_result_rows
        wanted = min(filter(None, (running.request.limit, running.most_rows, most)))
        run = self.spark.run(prepared.spark(self.spark), wanted + 1, running.check)
        return RowLimitRun(run, most, "query.spark_result_rows") if wanted == most else run


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
