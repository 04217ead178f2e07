"""CPU budgets of the page as ratios within one browser: rows and spans that are not in sight cost little."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.page.explore_lake import (
    EXPLORE,
    EXPLORE_RANGE,
    LARGE_TRACE,
    MIDDLE_TRACE,
    SMALL_TRACE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page, Route

    from tests.page.conftest import Keyed, Visitor

ROWS, PLAIN_ROWS = 100_000, 10_000
MOST_ELEMENTS = 1500
JUMPS = STEPS = 10
# Waiting for a frame in a page: `evaluate` allows promises under the security policy.
FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
SCROLL = "([role, top]) => { document.querySelector(`[role=${role}]`).scrollTop = top; }"
# The same rows without a pool of slots: a copy of a row of the list for each record.
PLAIN = """(count) => {
  const grid = document.querySelector("[role=grid]");
  const row = grid.querySelector("[role=row].body");
  const box = grid.cloneNode(false);
  box.style.cssText = "position: fixed; inset: 0; z-index: 9";
  for (let place = 0; place < count; place += 1) {
    const one = row.cloneNode(true);
    one.style.cssText = "position: relative";
    one.lastElementChild.textContent = `line ${place}`;
    box.append(one);
  }
  grid.parentElement.append(box);
  return box.childElementCount;
}"""


class Meter:
    """Counts the CPU seconds that the thread of a page uses for tasks."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def read(self) -> float:
        """Return the seconds so far."""
        found = {one["name"]: one["value"] for one in self.session.send("Performance.getMetrics")["metrics"]}
        return float(found["TaskDuration"])

    def measure(self, run: Callable[[], object]) -> float:
        """Return the seconds of a step, until it is drawn."""
        before = self.read()
        run()
        self.page.evaluate(FRAME)
        return self.read() - before

    def scroll(self, role: str, steps: int, pixels: int) -> float:
        """Return the seconds of some steps down a list."""

        def move() -> None:
            for step in range(1, steps + 1):
                self.page.evaluate(SCROLL, [role, step * pixels])
                self.page.evaluate(FRAME)

        return self.measure(move)


def answer_rows(route: Route) -> None:
    """Answer a query of log records with very many of them, and other queries as the server does."""
    if "record_id" not in (route.request.post_data or ""):
        route.continue_()
        return
    statistics = {"scans": [], "engine": "duckdb", "cache": "miss", "rollup": "", "rows": ROWS, "seconds": 1}
    statistics |= {"planning_seconds": 0, "partial": False, "truncated": False, "notes": []}
    statistics |= {"files": 1, "bytes": 1, "pruned_files": 0, "pruned_bytes": 0}
    data: dict[str, list[Any]] = {
        "timestamp": ["2026-02-02T10:00:00+00:00"] * ROWS,
        "record_id": [f"{place:032x}" for place in range(ROWS)],
        "severity_number": [9] * ROWS,
        "service_name": ["cart"] * ROWS,
        "message": [f"line {place}" for place in range(ROWS)],
        "trace_id": [None] * ROWS,
    }
    columns = [{"name": name, "type": "string"} for name in data]
    document = {"id": "q", "columns": columns, "pieces": [list(data.values())], "statistics": statistics}
    route.fulfill(body=json.dumps(document), content_type="application/json")


def test_rows_out_of_sight_cost_nothing(visitor: Visitor) -> None:
    """100,000 rows have few elements; drawing all in sight ten times costs a tenth of 10,000 plain rows, at most."""
    visitor.page.route("**/api/v1/query", answer_rows)
    page = visitor.open("/logs")
    page.get_by_text("line 0", exact=True).wait_for()
    visitor.wait_for("line 0")
    grid = page.get_by_role("grid", name="Log records")
    assert grid.get_attribute("aria-rowcount") == str(ROWS + 1)
    grid.focus()
    page.keyboard.press("End")
    page.get_by_text(f"line {ROWS - 1}", exact=True).wait_for()
    assert page.evaluate("() => document.querySelectorAll('*').length") <= MOST_ELEMENTS
    meter = Meter(page)
    virtual = meter.scroll("grid", JUMPS, 50_000)
    plain = meter.measure(lambda: page.evaluate(PLAIN, PLAIN_ROWS))
    visitor.page.unroute_all()
    assert virtual <= plain / 10, f"{virtual:.3f} s for {JUMPS} jumps, {plain:.3f} s for {PLAIN_ROWS:,} plain rows"


def test_large_traces_cost_little_more(visit: Callable[..., Visitor], keyed: Keyed) -> None:
    """Opening and scrolling 10,000 spans costs at most twice as much as 1,000, and 100,000 at most four times that."""
    window = visit(keyed.server, extra_http_headers=keyed.header(EXPLORE))
    page = window.open("/trace", EXPLORE_RANGE)
    meter, traces = Meter(page), page.get_by_role("grid", name="Traces").get_by_role("row").nth(1)
    found: dict[bytes, float] = {}
    for trace in (SMALL_TRACE, SMALL_TRACE, MIDDLE_TRACE, LARGE_TRACE):  # the first loads the screen
        traces.wait_for()

        def open_trace(trace: bytes = trace) -> None:
            window.go(f"/trace/{trace.hex()}", EXPLORE_RANGE)
            page.get_by_role("treegrid", name="Spans").get_by_role("row").nth(1).wait_for()

        found[trace] = meter.measure(open_trace) + meter.scroll("treegrid", STEPS, 240)
        window.go("/trace", EXPLORE_RANGE)
    small, middle, large = (found[trace] for trace in (SMALL_TRACE, MIDDLE_TRACE, LARGE_TRACE))
    assert middle <= 2 * small, f"{small:.3f} s of CPU for 1,000 spans, {middle:.3f} s for 10,000"
    assert large <= 4 * middle, f"{middle:.3f} s of CPU for 10,000 spans, {large:.3f} s for 100,000"
