"""A newcomer finds the cause of the demo's incident from the first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.page.conftest import Visitor
    from tests.page.demo_lake import DemoLake

MOST_ACTIONS = 8
CAUSE = "HikariPool-1"


def check_cause(page: Page, demo_lake: DemoLake) -> None:
    """The open span is of the service and the version of the incident, and names the pool that ran out."""
    incident = demo_lake.telemetry.incident
    details = page.get_by_role("complementary", name="Span")
    details.get_by_text(incident.bad_version, exact=True).first.wait_for()
    details.get_by_role("link", name=incident.service, exact=True).wait_for()
    details.get_by_text(CAUSE).first.wait_for()


def test_by_mouse(visitor: Visitor, demo_lake: DemoLake) -> None:
    """Services, the one that fails, its failing operation, a failed span: at most eight clicks."""
    page = visitor.open("/")
    page.get_by_role("grid", name="Log records").wait_for()
    actions = 0

    def click(target: Locator) -> None:
        nonlocal actions
        target.click()
        actions += 1

    click(page.get_by_role("navigation").get_by_role("link", name="Services"))
    services = page.get_by_role("table", name="Services")
    click(services.get_by_role("button", name="Errors"))
    click(services.get_by_role("row").nth(1).get_by_role("link"))
    operations = page.get_by_role("table", name="Operations of payment")
    click(operations.get_by_role("button", name="Errors"))
    click(operations.get_by_role("link", name=CAUSE))
    click(page.get_by_role("grid", name="Traces").get_by_role("row").nth(1))
    check_cause(page, demo_lake)
    assert actions <= MOST_ACTIONS


def test_by_keyboard(visitor: Visitor, demo_lake: DemoLake) -> None:
    """Keys alone lead to the failed traces, into one of them, and from error to error down to the cause."""
    page = visitor.open("/")
    page.get_by_role("grid", name="Log records").wait_for()
    for key in ("g", "t"):
        page.keyboard.press(key)
    page.get_by_role("grid", name="Traces").get_by_role("row").nth(1).wait_for()
    press_until_focused(page, page.get_by_role("button", name="Errors"))
    page.keyboard.press("Enter")
    traces = page.get_by_role("grid", name="Traces")
    traces.get_by_text("error").first.wait_for()
    press_until_focused(page, traces)
    for key in ("ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.get_by_role("treegrid", name="Spans").get_by_role("row").nth(1).wait_for()
    for _ in range(MOST_ACTIONS):
        page.keyboard.press("e")
        if page.get_by_role("row", selected=True).get_by_text(CAUSE).count():
            break
    check_cause(page, demo_lake)


def press_until_focused(page: Page, target: Locator) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(60):
        if target.evaluate("(element) => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {target}")
