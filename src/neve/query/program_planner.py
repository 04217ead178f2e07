"""Plan the statements of a running program, with the tenancy, the limits and the snapshots of its query."""

from __future__ import annotations

import time
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
            running.request, sql=wanted.sql, parameters=wanted.parameters, time=TimeRange(wanted.since, wanted.until)
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
