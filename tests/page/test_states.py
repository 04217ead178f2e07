"""Every screen while it loads, when the API fails, and with more than it can show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.page.demo_lake import START
from tests.page.test_operator_screens import answer

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from tests.page.conftest import Visitor

expect.set_options(timeout=60_000)

HISTOGRAM = "http_server_request_duration_seconds"
# The address of a screen, and the call whose answer it waits for.
CALLS = {
    "/logs": "query",
    "/trace": "query",
    f"/trace/{'ab' * 16}": f"traces/{'ab' * 16}",
    "/services": "services",
    "/services?tab=map": "services/edges",
    "/metric": "metadata",
    f"/metric?metric={HISTOGRAM}": "query_range",
    "/sql?run=1&sql=SELECT+1": "query",
    "/sql?view=running": "queries",
    "/jobs": "jobs",
    "/jobs/next": "plan",
    "/jobs/pauses": "pauses",
    "/lake": "lake/tables",
    "/lake/spans": "lake/tables/spans/partitions",
    "/lake/spans/plan": "lake/tables/spans/plan",
    "/lake/spans/snapshots": "lake/tables/spans/snapshots",
    "/lake/spans/runs": "lake/tables/spans/runs",
    "/sampling": "decisions/volumes",
    "/sampling/decisions": "decisions",
    "/sampling/what-if": "sampling/simulations",
    "/proof": "ledger",
    "/proof/quarantine": "quarantine/groups",
    "/layouts": "layouts",
    "/layouts/20260201020000-1f2e3d": "layouts/20260201020000-1f2e3d",
    "/costs": "costs",
}
SERIES, NODES, JOBS = 80, 90, 500


def ends_with(url: str, call: str) -> bool:
    """Return whether a request is this call of the API."""
    return url.partition("?")[0].endswith(f"/api/v1/{call}")


def hold(page: Page, call: str) -> None:
    """Let a call of the API wait for ever."""
    page.route(lambda url: ends_with(url, call), lambda route: None)


def leave(visitor: Visitor) -> None:
    """Go away from all screens: parts of one stay when only its address changes."""
    visitor.go("/nothing/here").get_by_role("heading", name="No such screen").wait_for()


def test_errors_are_shown_in_the_words_of_the_api(visitor: Visitor) -> None:
    """With the hint and the id of the query; the screen can be tried again, and its frame stays."""
    found = {}
    for path, call in CALLS.items():
        error = {"code": "lake_unavailable", "message": f"{call} failed", "hint": "wait", "limit": None}
        body = {"status": "error", "errorType": "unavailable", "error": f"{call} failed"}
        is_prometheus = path.startswith("/metric")
        leave(visitor)
        answer(visitor.page, call, 503, body if is_prometheus else {"error": error, "id": "q-17"})
        page = visitor.go(path)
        alert = page.get_by_role("alert").filter(has_text=f"{call} failed").first
        expect(alert.get_by_role("button", name="Try again")).to_be_visible()
        if not is_prometheus:
            expect(alert).to_contain_text("q-17")
            expect(alert).to_contain_text("wait")
        found[path] = visitor.violations()
        page.unroute_all()
    assert {path: some for path, some in found.items() if some} == {}


def test_a_slow_answer_can_be_cancelled(visitor: Visitor) -> None:
    """The frame is there at once; after a second there is a way to cancel, and then a way to load."""
    found = {}
    for path, call in CALLS.items():
        leave(visitor)
        hold(visitor.page, call)
        page = visitor.go(path)
        main = page.get_by_role("main")
        cancel = main.get_by_role("button", name="Cancel", exact=True).first
        expect(cancel).to_be_visible()
        found[path] = visitor.violations()
        cancel.click()
        expect(main.get_by_text("Cancelled.").first).to_be_visible()
        page.unroute_all()
    assert {path: some for path, some in found.items() if some} == {}


def test_screens_say_what_they_leave_out(visitor: Visitor) -> None:
    """More series than a chart draws, more nodes than a map has, more jobs than a list."""
    page = visitor.page
    result = [
        {
            "metric": {"service_name": f"service-{place}"},
            "values": [[START // 1_000_000_000 + 15 * step, str(place)] for step in range(20)],
        }
        for place in range(SERIES)
    ]
    answer(page, "query_range", 200, {"status": "success", "data": {"resultType": "matrix", "result": result}})
    visitor.go(f"/metric?metric={HISTOGRAM}&fn=rate")
    visitor.wait_for(f"{SERIES - 50} others")
    assert visitor.violations() == []
    page.unroute_all()
    page.route(lambda url: ends_with(url, "services/edges"), add_nodes)
    visitor.go("/services?tab=map")
    visitor.wait_for("other nodes not shown")
    assert page.locator("svg .node").count() <= 60
    page.unroute_all()
    page.route(lambda url: ends_with(url, "jobs"), add_jobs)
    visitor.go("/jobs")
    visitor.wait_for(f"The newest {JOBS} jobs.")
    assert page.get_by_role("grid", name="Jobs").get_by_role("row").count() < 60
    assert visitor.violations() == []
    page.unroute_all()


def add_nodes(route: Route) -> None:
    """Answer with calls between many services, made from one that the server knows."""
    document = route.fetch().json()
    first = document["edges"][0]
    document["edges"] += [
        {**first, "client": f"service-{place}", "server": f"service-{place + 1}"} for place in range(NODES)
    ]
    route.fulfill(body=json.dumps(document), content_type="application/json")


def add_jobs(route: Route) -> None:
    """Answer with many jobs, made from one that the server knows."""
    document: dict[str, Any] = route.fetch().json()
    first = document["jobs"][0]
    document["jobs"] = [{**first, "id": f"{place:032x}"} for place in range(JOBS)]
    route.fulfill(body=json.dumps(document), content_type="application/json")
