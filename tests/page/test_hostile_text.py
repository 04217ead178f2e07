"""Markup in every field of every signal, of jobs, rejected records, views and results is text on every screen."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.page.demo_lake import RANGE
from tests.page.hostile_lake import (
    CHILD_ID,
    HARMLESS_LINK,
    HOSTILE_RANGE,
    LINK,
    MARKUP,
    TRACE_ID,
    fill_hostile_lake,
)
from tests.page.operator_lake import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.page.conftest import Visitor
    from tests.page.demo_lake import DemoLake
    from tests.page.operator_lake import Operated

TRACE = f"/trace/{TRACE_ID.hex()}"
SQL = quote(f"SELECT '{MARKUP.replace(chr(39), chr(39) * 2)}' AS \"{MARKUP.replace(chr(34), chr(34) * 2)}\"")
# A screen, its range, and a hostile text that is in sight there.
SCREENS = (
    ("/logs", HOSTILE_RANGE, MARKUP),
    ("/trace", HOSTILE_RANGE, MARKUP),
    (f"{TRACE}?span={CHILD_ID.hex()}", HOSTILE_RANGE, LINK),
    (f"{TRACE}?open=logs", HOSTILE_RANGE, MARKUP),
    ("/services", HOSTILE_RANGE, MARKUP),
    (f"/services?service={quote(MARKUP)}", HOSTILE_RANGE, MARKUP),
    ("/services?tab=map", HOSTILE_RANGE, "Dashed lines"),
    ("/services?tab=calls", HOSTILE_RANGE, MARKUP),
    ("/metric", HOSTILE_RANGE, "img_src_x_onerror"),  # PromQL has no other characters in names and units
    ("/metric?metric=hostile_counter_total", HOSTILE_RANGE, MARKUP),
    (f"/sql?run=1&sql={SQL}", HOSTILE_RANGE, MARKUP),
    (f"/sql?run=1&sql={quote(f'SELECT {MARKUP}')}", HOSTILE_RANGE, "Try again"),
    ("/jobs?state=dead", RANGE, MARKUP),
    ("/proof/quarantine", RANGE, HOSTILE),
    ("/sampling", RANGE, HOSTILE),
    ("/sampling/decisions", RANGE, HOSTILE),
)
INJECTED = "() => document.querySelectorAll('main img, main script, main iframe, [onerror]').length"


@pytest.fixture(scope="module", autouse=True)
def hostile(demo_lake: DemoLake, operated: Operated) -> None:
    """Records that are markup in every field."""
    fill_hostile_lake(demo_lake, operated.documents)


def check_nothing_ran(page: Page, where: str) -> None:
    """No script ran, and no element came from telemetry. The fixture of windows checks the console."""
    assert page.evaluate("() => window.hacked ?? null") is None, where
    assert page.evaluate(INJECTED) == 0, where


def test_every_screen(visitor: Visitor) -> None:
    """The text is in sight as it was sent, and nothing runs."""
    for path, parameters, words in SCREENS:
        visitor.go(path, parameters)
        visitor.wait_for(words)
        check_nothing_ran(visitor.page, path)


def test_open_record(visitor: Visitor) -> None:
    """Every attribute is text, links are only for http and have no opener, and values become filters."""
    page = visitor.open("/logs", HOSTILE_RANGE)
    rows = page.get_by_role("grid", name="Log records").locator("[role=row].body")
    rows.first.click()
    record = page.get_by_role("complementary", name="Record")
    record.get_by_text(LINK).first.wait_for()
    links = record.locator("a[target=_blank]")
    assert [link.get_attribute("href") for link in links.all()] == [HARMLESS_LINK]
    assert links.first.get_attribute("rel") == "noopener noreferrer"
    record.get_by_role("button", name="Only <img", exact=False).first.click()
    page.wait_for_url("**q=**")
    rows.first.wait_for()
    check_nothing_ran(page, "record")


def test_job_and_saved_view(visitor: Visitor, operated: Operated) -> None:
    """An open job, the palette and the list of views show markup as text."""
    page = visitor.open("/jobs?state=dead")
    page.get_by_role("grid", name="Jobs").get_by_role("row").filter(has_text=MARKUP).first.click()
    page.get_by_role("complementary", name="Job").get_by_text(MARKUP).first.wait_for()
    saved = page.request.put(
        f"{operated.server}/api/v1/views/hostile",
        data={"address": f"/logs?q={MARKUP}"},
        headers={"origin": operated.server},
    )
    assert saved.ok, saved.text()
    page.keyboard.press("v")
    page.get_by_role("dialog").get_by_text("hostile").first.wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("p")
    page.get_by_role("dialog").get_by_role("combobox").fill(MARKUP)
    check_nothing_ran(page, "job, views, palette")
