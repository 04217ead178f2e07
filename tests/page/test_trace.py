"""The screen of a trace: from a log to its trace, its logs and its decision; odd and huge traces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.explore.traces import CHECKOUT, HOSTILE, span_id
from tests.page.explore_lake import CYCLE_TRACE, EXPLORE, EXPLORE_RANGE, LARGE, LARGE_TRACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.page.conftest import Keyed, Visitor

TRACE = f"/trace/{CHECKOUT.hex()}"
MOST_ELEMENTS = 1500


@pytest.fixture
def window(visit: Callable[..., Visitor], keyed: Keyed) -> Visitor:
    """A window of an organization with a few traces, a huge one and an odd one."""
    return visit(keyed.server, extra_http_headers=keyed.header(EXPLORE))


def open_trace(window: Visitor, path: str) -> Page:
    """Open a trace, and wait for its rows."""
    page = window.open(path, EXPLORE_RANGE)
    page.get_by_role("treegrid", name="Spans").get_by_role("row").nth(1).wait_for()
    return page


def test_from_a_log_to_the_sampling_decision(window: Visitor) -> None:
    """A log leads to its trace, the trace to the logs of a span and to its decision with policy and revisions."""
    page = window.open("/logs", EXPLORE_RANGE)
    page.get_by_role("grid", name="Log records").get_by_text(HOSTILE).first.click()
    page.get_by_role("link", name="Open the trace").click()
    details = page.get_by_role("complementary", name="Span")
    details.get_by_role("region", name="Logs of this span").get_by_text(HOSTILE).wait_for()
    assert span_id(3).hex() in page.url
    page.get_by_role("button", name="Sampling: kept by errors").click()
    decision = page.get_by_role("complementary", name="Sampling decision")
    for words in ("a span has the status error", "1 trace", "2 decisions", "2 late spans arrived"):
        decision.get_by_text(words).first.wait_for()
    assert page.locator("main img").count() == 0


def test_the_address_is_the_view(window: Visitor, visit: Callable[..., Visitor], keyed: Keyed) -> None:
    """Search, order, zoom and the open span survive a reload and another browser."""
    page = open_trace(window, TRACE)
    page.get_by_role("searchbox", name="Search within the trace").fill("payment")
    page.get_by_role("button", name="Errors first").click()
    page.keyboard.press("w")
    page.keyboard.press("e")
    page.get_by_role("complementary", name="Span").get_by_text("server").first.wait_for()
    page.get_by_role("button", name="Whole trace").wait_for()
    seen = page.get_by_role("main").aria_snapshot()
    page.reload()
    page.get_by_role("complementary", name="Span").get_by_text("server").first.wait_for()
    page.get_by_role("button", name=re.compile("^Sampling: kept")).wait_for()
    assert page.get_by_role("main").aria_snapshot() == seen
    headers = keyed.header(EXPLORE)
    other = visit(keyed.server, color_scheme="dark", timezone_id="America/New_York", extra_http_headers=headers)
    other.page.goto(page.url)
    other.page.get_by_role("complementary", name="Span").get_by_text("server").first.wait_for()
    other.page.get_by_role("button", name=re.compile("^Sampling: kept")).wait_for()
    assert other.page.get_by_role("main").aria_snapshot() == seen


def test_keys(window: Visitor) -> None:
    """Arrows move, collapse and expand; Enter opens and Esc closes a span."""
    page = open_trace(window, TRACE)
    tree = page.get_by_role("treegrid", name="Spans")
    tree.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    tree.get_by_text("+5").wait_for()
    assert tree.get_attribute("aria-rowcount") == "3"
    page.keyboard.press("ArrowRight")
    assert tree.get_attribute("aria-rowcount") == "8"
    page.keyboard.press("Enter")
    page.get_by_role("complementary", name="Span").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("complementary", name="Span").wait_for(state="detached")


def test_drag_zooms(window: Visitor) -> None:
    """Dragging over the bars changes the part in sight."""
    page = open_trace(window, TRACE)
    box = page.get_by_role("treegrid", name="Spans").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 60, steps=4)
    page.mouse.up()
    page.get_by_role("button", name="Whole trace").wait_for()
    assert re.search(r"view=\d+_\d+", page.url)


def test_odd_trace(window: Visitor) -> None:
    """A cycle of parents and a missing parent are named, and every span has a row."""
    page = open_trace(window, f"/trace/{CYCLE_TRACE.hex()}")
    page.get_by_text("1 cycle of parents, opened at the earliest span").wait_for()
    page.get_by_text("1 span without a stored parent").wait_for()
    assert page.get_by_role("treegrid", name="Spans").get_attribute("aria-rowcount") == "4"
    assert page.locator("main img").count() == 0


def test_unknown_trace(window: Visitor) -> None:
    """A trace that is not stored says so, why that may be, and where to go on."""
    page = window.open(f"/trace/{'ab' * 16}", EXPLORE_RANGE)
    page.get_by_role("heading", name="Trace not found").wait_for()
    page.get_by_role("link", name="List traces").click()
    page.get_by_role("grid", name="Traces").get_by_role("row").nth(1).wait_for()


def test_refused_trace(window: Visitor) -> None:
    """An error of the API is shown in its words, with a way to try again."""
    page = window.open("/trace/nonsense", EXPLORE_RANGE)
    alert = page.get_by_role("alert")
    alert.get_by_text("expected 32 hexadecimal digits").wait_for()
    alert.get_by_role("button", name="Try again").wait_for()


def test_axe(window: Visitor) -> None:
    """No violation: the list, a trace, an open span, its decision, its logs, an unknown trace."""
    for path, words in {
        "/trace": "POST /checkout",
        TRACE: "Sampling: kept",
        f"{TRACE}?span={span_id(3).hex()}": "Logs of this span",
        f"{TRACE}?open=decision": "2 decisions",
        f"{TRACE}?open=logs": "started",
        f"/trace/{'ab' * 16}": "Trace not found",
    }.items():
        window.go(path, EXPLORE_RANGE)
        window.wait_for(words)
        assert window.violations() == [], path


def test_huge_trace(window: Visitor) -> None:
    """A trace of 100,000 spans has few elements, and its error 1,200 levels deep is found by a key."""
    page = open_trace(window, f"/trace/{LARGE_TRACE.hex()}")
    tree = page.get_by_role("treegrid", name="Spans")
    assert tree.get_attribute("aria-rowcount") == str(LARGE + 1)
    assert page.evaluate("() => document.querySelectorAll('*').length") <= MOST_ELEMENTS
    assert window.violations() == []
    page.keyboard.press("e")
    page.get_by_role("complementary", name="Span").get_by_text("chain").first.wait_for()
    tree.get_by_text("level 1200").wait_for()
