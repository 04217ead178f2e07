"""Plan the statements of a running program, with the tenancy, the limits and the snapshots of its query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.errors import LimitExceeded, QueryError
from neve.query.engine.duckdb import DUCKDB
from neve.query.request import TimeRange

if TYPE_CHECKING:
    from neve.query.engine.duckdb import Write
    from neve.query.engine.program import StatementRequest
    from neve.query.execution import RunningQuery
    from neve.query.query_plan import QueryPlan
    from neve.query.request import Request

MAX_STATEMENTS = 200  # of one program: the server plans them, in the process that all callers share

PlanRequest = Callable[["Request"], "QueryPlan"]


@dataclass
class ProgramPlanner:
    """Planner for one run of a program.

    `make_plan` plans a request at the snapshots of the query, and `charge` checks and counts the bytes of a plan.
    """

    running: RunningQuery
    make_plan: PlanRequest
    charge: Callable[[QueryPlan], None]
    statements: int = 0

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
            running.request, sql=wanted.sql, parameters=wanted.parameters, time=TimeRange(wanted.since, wanted.until)
        )
        plan = self.make_plan(request)
        if reasons := [one.only_spark for one in plan.plans.values() if one.only_spark]:
            raise QueryError(f"only Spark can read the tables of this query ({'; '.join(reasons)})")
        plan = plan.after(running.statistics)
        self.charge(plan)
        running.statistics = replace(plan.statistics, engine=DUCKDB, cache=running.statistics.cache, notes=())
        return plan.duckdb
