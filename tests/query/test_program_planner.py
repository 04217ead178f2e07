"""Statements of programs: their number is limited, and all of them together are charged as planning."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from neve.errors import LimitExceeded
from neve.query.engine.program import StatementRequest
from neve.query.execution import RunningQuery
from neve.query.limits import Limits
from neve.query.program_runner import FREE_SECONDS, MAX_STATEMENTS, PART_SECONDS, ProgramPlanner
from neve.query.request import Request, Statistics

if TYPE_CHECKING:
    from neve.query.query_plan import QueryPlan


class Plan:
    """Plan of a statement that reads nothing."""

    plans: dict[int, Any] = {}  # noqa: RUF012  # never changed
    statistics = Statistics()
    duckdb = None

    def after(self, _earlier: Statistics) -> Plan:
        """Return the plan."""
        return self


def make_planner(paid: list[float]) -> ProgramPlanner:
    """Return a planner whose plans take no time."""
    running = RunningQuery(Request("x", "acme"), Limits(), lambda _entry: None)
    return ProgramPlanner(running, lambda _request: cast("QueryPlan", Plan()), lambda _plan: None, paid.append)


def test_number() -> None:
    """One statement more than the limit is rejected."""
    planner = make_planner([])
    for _ in range(MAX_STATEMENTS):
        planner.plan(StatementRequest("SELECT 1"))
    with pytest.raises(LimitExceeded, match=f"more than {MAX_STATEMENTS} SQL statements"):
        planner.plan(StatementRequest("SELECT 1"))


def test_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many short statements are charged as a long one, beyond those that are free."""
    clock = iter(index * 0.04 for index in range(10_000))
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))
    paid: list[float] = []
    planner = make_planner(paid)
    free = round((FREE_SECONDS + PART_SECONDS) / 0.04)
    for _ in range(free - 1):
        planner.plan(StatementRequest("SELECT 1"))
    assert paid == []
    for _ in range(25):
        planner.plan(StatementRequest("SELECT 1"))
    assert len(paid) >= 9
    assert min(paid) > PART_SECONDS
