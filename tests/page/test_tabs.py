"""Tabs of one browser share one stream of job changes, and a hidden tab sends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.jobs.job import Task
from neve.jobs.queue import JobQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.page.conftest import Visitor
    from tests.page.operator_lake import Operated

TABS = 10  # more than the connections of a browser to a host
HIDE = """(hidden) => {
  const state = hidden ? "hidden" : "visible";
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def count_streams(tabs: list[Visitor]) -> list[int]:
    """Return the number of streams that each tab has opened."""
    return [sum(url.endswith("/jobs/events") for url in tab.requests) for tab in tabs]


def see_job(tabs: list[Visitor], operated: Operated, table: str) -> None:
    """Request a job, and wait until every tab shows it."""
    JobQueue(operated.documents).request(Task.ROLLUP, table, reason=f"of {table}")
    for tab in tabs:
        tab.page.get_by_role("grid", name="Jobs").get_by_text(f"of {table}").first.wait_for()


def test_ten_tabs(visit: Callable[..., Visitor], operated: Operated) -> None:
    """One tab has the stream and tells the others; another takes over; a hidden tab loads when it is in sight again."""
    tabs = [visit(operated.server) for _ in range(TABS)]
    for tab in tabs:
        tab.open("/jobs").get_by_role("grid", name="Jobs").wait_for()
    see_job(tabs, operated, "first")
    assert sum(count_streams(tabs)) == 1
    holder = tabs[count_streams(tabs).index(1)]
    holder.page.evaluate(HIDE, True)
    before = len(holder.requests)
    others = [tab for tab in tabs if tab is not holder]
    see_job(others, operated, "second")
    assert sum(count_streams(others)) == 1
    assert holder.requests[before:] == []
    holder.page.evaluate(HIDE, False)
    holder.page.get_by_text("of second").first.wait_for()
    assert sum(count_streams(tabs)) == 2
