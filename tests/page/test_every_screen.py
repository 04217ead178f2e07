"""Every screen: readable by axe in light and dark, and the same view at its address in browsers of two time zones."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from neve.jobs.job import JobState, Task
from neve.jobs.queue import JobQueue
from tests.page.operator_lake import fail_search

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.page.conftest import Visitor
    from tests.page.operator_lake import Operated

HISTOGRAM = "http_server_request_duration_seconds"
NOW = "2026-02-02T10:06:00Z"  # of both browsers: ages and times before now are the same in them
SETTLE_SECONDS = 60
# What a query took, and its id, are not part of a view.
MEASURED = re.compile(r"[\d.,]+ (?:µs|ms|s)\b(?: planning)?|from the cache|cache (?:hit|miss)|query [0-9a-f]{8,32}")
# A screen, and a text that is there when its data is.
SCREENS = {
    "/logs?q=service%3Dpayment+severity%3E%3Derror&cols=exception.type&facets=exception.type": "all 66 records",
    "/trace?order=errors&service=payment": "payment",
    "/services?service=payment": "HikariPool",
    "/services?tab=map": "Dashed lines",
    "/services?tab=calls": "database",
    f"/metric?metric={HISTOGRAM}": "Answered by points",
    "/sql": "Write a statement and run it",
    "/sql?run=1&sql=SELECT+timestamp+FROM+logs+ORDER+BY+1+LIMIT+1": "1 row",
    "/sql?run=1&sql=SELECT+x": "Try again",
    "/sql?view=running": "Running queries",
    "/sql?view=history": "History",
    "/jobs": "the index can't be read",
    "/jobs/next": "Policies:",
    "/jobs/pauses": "Pauses",
    "/lake?sort=files": "trace_decisions",
    "/lake/spans": "Target size of a file",
    "/lake/spans/plan?part=left_alone": "Left alone",
    "/lake/spans/snapshots": "Files over time as a table",
    "/lake/spans/runs": "8f3a90c2d4b17e65",
    "/sampling": "By policy",
    "/sampling/decisions?decision=sampled": "policy errors",
    "/sampling/what-if": "Policies to try",
    "/proof": "the sums meet",
    "/proof/quarantine?reason=bad_line": "line 7 has 2 columns",
    "/layouts": "delivered 38.5 %",
    "/layouts/20260201020000-1f2e3d": "as promised",
    "/costs?by=table": "Storage calls",
}
MOVING = {"/jobs/next"}  # its times move with the clock of the server


@pytest.fixture(scope="module", autouse=True)
def dead_job(operated: Operated) -> None:
    """A job that failed, also if other tests replayed it."""
    if not JobQueue(operated.documents).list(states=(JobState.DEAD,), task=Task.SEARCH):
        fail_search(operated.documents)


def read_text(window: Visitor) -> str:
    """Return the visible text of the screen, without what a query took."""
    return MEASURED.sub("…", window.page.get_by_role("main").inner_text())


def test_axe_and_the_address(visit: Callable[..., Visitor], server: str) -> None:
    """Axe finds nothing; a browser that loads the address has the text of one that came there by links."""
    first = visit(server)
    other = visit(server, timezone_id="America/New_York", color_scheme="dark")
    for window in (first, other):
        window.page.clock.set_fixed_time(NOW)
    found: dict[str, list[str]] = {}
    for path, words in SCREENS.items():
        address = f"{path}{'&' if '?' in path else '?'}zone=Asia/Tokyo"
        first.go(address)
        first.wait_for(words)
        found[path] = first.violations()
        other.open(address)
        other.wait_for(words)
        if path not in MOVING:
            compare_texts(first, other, path)
    assert {path: some for path, some in found.items() if some} == {}


def compare_texts(first: Visitor, other: Visitor, path: str) -> None:
    """Wait until both windows show the same; panels arrive in any order."""
    end = time.monotonic() + SETTLE_SECONDS
    while (expected := read_text(first)) != (found := read_text(other)):
        assert time.monotonic() < end, f"{path}\n{expected}\n--- in another zone:\n{found}"
        other.page.wait_for_timeout(100)
