"""Run a program, for example in another language than SQL, and plan its statements.

Statements have the tenancy, the limits and the snapshots of the query.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.errors import LimitExceeded, QueryError
from neve.query.cache import CacheKey
from neve.query.engine.duckdb import DUCKDB
from neve.query.engine.program import GROWING
from neve.query.engine_errors import FilesMissing, planning_errors
from neve.query.query_plan import plan_query
from neve.query.request import Statistics, TimeRange
from neve.query.runs import CollectingRun, StoredRun
from neve.query.sql.statement import pin_clock
from neve.query.statement_runner import ATTEMPTS
from neve.query.table_versions import list_grown_versions, table_version

if TYPE_CHECKING:
    from neve.query.engine.duckdb import Write
    from neve.query.engine.program import CurrentRollup, Program, StatementRequest, TableVersions
    from neve.query.execution import RunningQuery
    from neve.query.limits import Limits
    from neve.query.query_plan import QueryPlan
    from neve.query.request import Request
    from neve.query.runs import Run
    from neve.query.statement_runner import StatementRunner
    from neve.query.tables import CatalogView


MAX_STATEMENTS = 200  # of one program: the server plans them, in the process that all callers share

FREE_SECONDS = 0.2  # of CPU for all statements of a program, about 20 of them; each alone is too short to be charged
PART_SECONDS = 0.1

PlanRequest = Callable[["Request"], "QueryPlan"]


@dataclass
class ProgramPlanner:
    """Planner for one run of a program.

    `make_plan` plans a request at the snapshots of the query, and `charge` checks and counts the bytes of a plan.
    `charge_cpu` charges CPU seconds of planning to the organization, which pauses in proportion.
    """

    running: RunningQuery
    make_plan: PlanRequest
    charge: Callable[[QueryPlan], None]
    charge_cpu: Callable[[float], None]
    statements: int = 0
    unpaid: float = -FREE_SECONDS  # CPU seconds

    def plan(self, wanted: StatementRequest) -> Write:
        """Plan a statement, and add what it reads to the statistics of the query. DuckDB runs it, whatever its size."""
        self.statements += 1
        if self.statements > MAX_STATEMENTS:
            raise LimitExceeded(
                f"the query needs more than {MAX_STATEMENTS} SQL statements",
                limit="statements",
                hint="use fewer selectors, or equal time ranges",
            )
        running = self.running
        request = replace(
            running.request,
            sql=wanted.sql,
            parameters=wanted.parameters,
            time=TimeRange(wanted.since, wanted.until),
            only_new_files=wanted.only_new_files,
            added_since=wanted.added_since,
        )
        began = time.thread_time()
        try:
            plan = self.make_plan(request)
        finally:
            self._pay(time.thread_time() - began)
        if reasons := [one.only_spark for one in plan.plans.values() if one.only_spark]:
            raise QueryError(f"only Spark can read the tables of this query ({'; '.join(reasons)})")
        plan = plan.after(running.statistics)
        self.charge(plan)
        running.statistics = replace(plan.statistics, engine=DUCKDB, cache=running.statistics.cache, notes=())
        return plan.duckdb

    def _pay(self, cpu_seconds: float) -> None:
        self.unpaid += cpu_seconds
        if self.unpaid > PART_SECONDS:
            self.charge_cpu(self.unpaid)
            self.unpaid = 0.0


@dataclass(frozen=True)
class ProgramRunner:
    """Runner of programs. Their statements are parsed, planned and charged as those of clients."""

    statements: StatementRunner

    def begin(self, running: RunningQuery, program: Program, limits: Limits) -> None:
        """Begin a program. Blocks until its first rows are available."""
        running.tables, running.is_program = program.tables, True
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._begin(running, program, limits)
            except FilesMissing:
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    def _begin(self, running: RunningQuery, program: Program, limits: Limits) -> None:
        with self.statements.turns.measure(running.organization), planning_errors():
            look = self.statements.sources.tables.look()
            rollups = self.list_rollups(look, running.organization) if "metrics" in program.tables else []
            grown = {name: list_grown_versions(look.table(name)) for name in GROWING.intersection(program.tables)}
            program = replace(program, versions=self._list_versions(program, look), rollups=rollups, grown_from=grown)
            asked = self._program_key(running, program)
        kept = self.statements.cache.get(asked) if asked is not None else None
        if kept is not None:
            running.statistics = replace(kept.statistics, cache="hit", rows=0)
            return running.begin(StoredRun(kept.table))
        running.statistics = Statistics(engine=DUCKDB, cache="off" if asked is None else "miss")
        planner = ProgramPlanner(
            running,
            lambda request: self._plan_within(running, request, look),
            lambda plan: self.statements.charge(running, plan, limits),
            lambda cpu_seconds: self.statements.turns.charge(running.organization, cpu_seconds),
        )
        run: Run = self.statements.duckdb.run_program(
            program,
            lambda wanted: self.statements.measure_planning(planner.plan(wanted), running),
            limits,
            running.organization,
        )
        if asked is not None:  # the statistics are complete when the result is
            put = self.statements.cache.put
            run = CollectingRun(run, self.statements.cache.largest, lambda table: put(asked, table, running.statistics))
        running.begin(run)
        return None

    def _plan_within(self, running: RunningQuery, request: Request, look: CatalogView) -> QueryPlan:
        """Plan a statement of a running program, whose planner measures the CPU time of all of them together."""
        with planning_errors():
            statement = pin_clock(self.statements.parse_inner(running, request), running.started)
            return plan_query(request, statement, self.statements.config, self.statements.sources, running.check, look)

    def _list_versions(self, program: Program, look: CatalogView) -> TableVersions:
        known = self.statements.sources.tables.schemas()
        return tuple((name, table_version(look.table(name))) for name in sorted(program.tables) if name in known)

    def list_rollups(self, look: CatalogView, organization: str) -> list[CurrentRollup]:
        """Return the rollups of an organization that are current."""
        found = self.statements.sources.coverages(look, organization)
        return [(one.table, one.seconds, one.ranges, table_version(look.table(one.table))) for one in found]

    def _program_key(self, running: RunningQuery, program: Program) -> CacheKey | None:
        if running.request.fresh or not self.statements.config.cache_bytes or program.cache_text is None:
            return None
        return CacheKey(
            running.organization,
            f"{program.function} {program.cache_text}",
            program.versions,
            ("", ""),
            running.request.limit,
        )
