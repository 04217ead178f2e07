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
    """Keys alone, each counted: the list of traces, failed ones, the first of them, and where its error began."""
    page = visitor.open("/")
    page.get_by_role("grid", name="Log records").get_by_role("row").nth(1).wait_for()
    traces = page.get_by_role("grid", name="Traces").get_by_role("row").nth(1)
    keys = ("g", "t", "e", "j", "Enter", "e")
    ready = {
        "t": traces,
        "e": traces.get_by_text("error"),
        "Enter": page.get_by_role("treegrid", name="Spans").get_by_role("row").nth(1),
    }
    for place, key in enumerate(keys):
        page.keyboard.press(key)
        if key in ready and place < len(keys) - 1:
            ready[key].wait_for()
    check_cause(page, demo_lake)
    assert len(keys) <= MOST_ACTIONS
