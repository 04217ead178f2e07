"""The screen Logs: search, facets, histogram, one record, and its four states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from tests.page.conftest import Visitor


def rows(page: Page) -> Any:
    """Return the rows of the list, without the head."""
    return page.get_by_role("grid", name="Log records").locator("[role=row].body")


def test_a_newcomer_finds_the_cause_by_mouse(visitor: Visitor) -> None:
    """From the first screen: only errors, the service with most of them, and the record says why."""
    page = visitor.open("/")
    page.get_by_role("button", name="error", exact=False).first.click()
    page.get_by_role("button", name="payment", exact=False).first.click()
    page.wait_for_url("**service%3Dpayment**")
    page.get_by_text("all 66 records").wait_for()
    rows(page).first.click()
    record = page.get_by_role("complementary", name="Record")
    record.get_by_text("HikariPool-1").first.wait_for()
    record.get_by_text("Before and after, same service").wait_for()
    record.get_by_role("button", name="Only service.version", exact=False).click()
    page.wait_for_url("**service.version**")


def test_a_newcomer_finds_the_cause_by_keys_alone(visitor: Visitor) -> None:
    """Search, move and open without a mouse; Esc closes, and the list keeps its place."""
    page = visitor.open("/logs")
    rows(page).first.wait_for()
    page.keyboard.press("/")
    page.keyboard.type("severity>=error service=payment")
    page.keyboard.press("Enter")
    page.wait_for_url("**severity**")
    page.get_by_text("all 66 records").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("complementary", name="Record").get_by_role("heading", name="Attributes").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("complementary", name="Record").wait_for(state="detached")
    assert page.get_by_role("row", selected=True).get_attribute("aria-rowindex") == "3"


def test_search_lines_are_conditions(visitor: Visitor) -> None:
    """Words, values, their opposites and SQL; a wrong condition is told in the words of the API."""
    page = visitor.open("/logs?q=%22connection pool exhausted%22 -service%3Dcart")
    page.get_by_text("all ").wait_for()
    assert rows(page).count() > 0
    visitor.go("/logs?q=where severity_number > 20")
    page.get_by_text("all 1 record").wait_for()
    visitor.go("/logs?q=where no_such_column %3D 1")
    page.get_by_role("alert").get_by_text("unknown column 'no_such_column'").first.wait_for()
    assert page.get_by_role("button", name="Try again").first.is_visible()


def test_a_drag_over_the_histogram_chooses_a_range(visitor: Visitor) -> None:
    """The address has the times, and the rows are those of the range."""
    page = visitor.open("/logs")
    bars = page.locator(".bars")
    bars.wait_for()
    box = bars.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 20, steps=4)
    page.mouse.up()
    page.wait_for_url("**from=2026-02-02T10%3A03**")
    rows(page).first.wait_for()


def test_an_empty_range_says_where_records_are(visitor: Visitor) -> None:
    """With a link to them."""
    page = visitor.open("/logs", "from=2020-01-01T00:00:00.000Z&to=2020-01-02T00:00:00.000Z")
    page.get_by_role("link", name="Show the hour before it").click()
    rows(page).first.wait_for()
    assert "2026-02-02T" in page.url


def test_a_slow_answer_can_be_cancelled(visitor: Visitor) -> None:
    """The frame is there at once; after a second there is a way out, and a way back."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    visitor.page.route("**/api/v1/query", hold)
    page = visitor.open("/logs")
    page.get_by_role("button", name="Cancel").first.wait_for()
    assert page.get_by_role("searchbox", name="Search logs").is_visible()
    page.get_by_role("button", name="Cancel").first.click()
    page.get_by_role("button", name="Load").first.wait_for()
    visitor.page.unroute_all()


def test_an_error_is_shown_with_its_hint(visitor: Visitor) -> None:
    """And the id of the query, for each status; other parts of the screen stay."""
    statuses = [400, 422, 429, 500, 503]
    failing = statuses[0]

    def fail(route: Route) -> None:
        error = {"code": "c", "message": f"failed with {failing}", "hint": "do this", "limit": None}
        route.fulfill(status=failing, json={"error": error, "id": "q1"})

    visitor.page.route("**/api/v1/query", fail)
    page = visitor.open("/logs")
    alert = page.get_by_role("alert").filter(has_text="failed with").first
    for status in statuses:
        failing = status
        if status != statuses[0]:
            alert.get_by_role("button", name="Try again").click()
        alert.get_by_text(f"failed with {status}").wait_for()
        assert "do this" in alert.inner_text()
        assert "q1" in alert.inner_text()
    assert page.get_by_role("navigation", name="Screens").is_visible()
    visitor.page.unroute_all()


def test_every_state_is_accessible(visitor: Visitor) -> None:
    """Axe finds nothing: an open record, help, palette, views, range, empty, an error, live."""
    page = visitor.open("/logs")
    rows(page).nth(2).click()
    page.get_by_role("complementary", name="Record").get_by_text("this record").wait_for()
    page.locator(".bars").wait_for()
    found = {"record": visitor.violations()}
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    found["help"] = visitor.violations()
    page.keyboard.press("Escape")
    page.keyboard.press("p")
    page.get_by_role("combobox").wait_for()
    found["palette"] = visitor.violations()
    page.keyboard.press("Escape")
    page.keyboard.press("v")
    page.get_by_role("dialog", name="Saved views").wait_for()
    found["views"] = visitor.violations()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="2026-02-02 10:00:00").click()
    page.get_by_role("dialog", name="Time range").wait_for()
    found["range"] = visitor.violations()
    page.keyboard.press("Escape")
    visitor.go("/logs", "from=2020-01-01T00:00:00.000Z&to=2020-01-02T00:00:00.000Z")
    page.get_by_role("link", name="Show the hour before it").wait_for()
    found["empty"] = visitor.violations()
    visitor.go("/logs?q=where x %3D")
    page.get_by_role("alert").first.wait_for()
    found["error"] = visitor.violations()
    visitor.go("/logs?live=1")
    page.get_by_text("matched since you switched it on").wait_for()
    found["live"] = visitor.violations()
    assert found == {state: [] for state in found}
