"""The frame of the page: navigation, keys, palette, range, zone, themes, and the address as the state."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest

from neve.api.page.files import FOLDER, INDEX, SECURITY_HEADERS
from tests.page.demo_lake import RANGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Response

    from tests.page.conftest import Visitor

MAX_SCRIPT_BYTES, MAX_STYLE_BYTES = 60_000, 10_000  # of the first screen, compressed


def test_the_first_screen_opens_at_the_root(visitor: Visitor) -> None:
    """`/` leads to an address of its own, shows records, and every response has the security headers."""
    responses: list[Response] = []
    visitor.page.on("response", lambda response: responses.append(response))  # noqa: PLW0108 - not for builtins
    page = visitor.open("/")
    page.get_by_role("grid", name="Log records").get_by_role("row").nth(3).wait_for()
    assert "/logs?" in page.url
    assert responses
    assert [one.url for one in responses if not SECURITY_HEADERS.items() <= one.headers.items()] == []


def test_the_first_screen_is_small(visitor: Visitor) -> None:
    """Its scripts and styles, compressed as they are sent; and few requests until the first rows."""
    page = visitor.open("/logs")
    page.get_by_role("grid", name="Log records").get_by_role("row").nth(3).wait_for()
    names = {url.rpartition("/assets/")[2] for url in visitor.requests if "/assets/" in url}
    sizes = {name: len(gzip.compress((FOLDER / "assets" / name).read_bytes(), mtime=0)) for name in names}
    assert sum(size for name, size in sizes.items() if name.endswith(".js")) <= MAX_SCRIPT_BYTES, sizes
    assert sum(size for name, size in sizes.items() if name.endswith(".css")) <= MAX_STYLE_BYTES, sizes
    assert len(visitor.requests) <= 25, visitor.requests


def test_keys_work_outside_of_fields_only(visitor: Visitor) -> None:
    """Help, palette, zone and range have keys; a letter in the search line is a letter."""
    page = visitor.open("/logs")
    page.get_by_role("grid", name="Log records").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").get_by_text("Go to Logs").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    page.wait_for_url("**zone=Europe%2FBerlin**")
    page.keyboard.press("[")
    page.wait_for_url("**from=2026-02-02T09%3A54%3A00.000Z**")
    page.keyboard.press("]")
    page.wait_for_url("**from=2026-02-02T10%3A00%3A00.000Z**")
    page.keyboard.press("/")
    page.keyboard.type("t?p")
    assert page.get_by_role("searchbox", name="Search logs").input_value() == "t?p"
    assert "zone=Europe" in page.url


def test_the_palette_finds_commands_by_their_text(visitor: Visitor) -> None:
    """Arrows choose, Enter runs; the theme stays after a reload."""
    page = visitor.open("/logs")
    page.get_by_role("grid", name="Log records").wait_for()
    page.keyboard.press("p")
    page.get_by_role("combobox").fill("dark")
    page.keyboard.press("Enter")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.reload()
    page.get_by_role("grid", name="Log records").wait_for()
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_nothing_overlaps_on_a_phone(visitor: Visitor) -> None:
    """The header has room for all its lines, the menu opens below it, and no status screen is wider than the phone."""
    page = visitor.page
    page.set_viewport_size({"width": 390, "height": 844})
    for path, words in {"/lake/spans": "Target size of a file", "/costs": "Storage calls", "/jobs": "Jobs"}.items():
        visitor.go(path)
        visitor.wait_for(words)
        page.get_by_role("group", name="State of the lake").get_by_text("running").wait_for()
        assert page.evaluate("() => document.documentElement.scrollWidth") == 390, path
        hidden = page.locator("header").first.evaluate("(one) => one.scrollHeight - one.clientHeight")
        assert hidden <= 0, path
    page.get_by_role("button", name="Menu").click()
    header, menu = page.locator("header").first.bounding_box(), page.get_by_role("navigation").first.bounding_box()
    assert header is not None
    assert menu is not None
    assert menu["y"] >= header["y"] + header["height"] - 1


PHONE: Any = {"width": 390, "height": 844}
# Status screens with lists, and a text that is there when their data is.
STATUS_SCREENS = {
    "/jobs": "Start job",
    "/jobs/next": "Policies:",
    "/lake/spans/plan": "To rewrite",
    "/lake/spans/runs": "8f3a90c2d4b17e65",
    "/proof": "the sums meet",
    "/proof/quarantine": "bad_line",
    "/layouts/20260201020000-1f2e3d": "as promised",
    "/costs": "Storage calls",
}
# Lists and tables that have more to the side than is in sight; the list of partitions is one on purpose.
SIDEWAYS = """() => [...document.querySelectorAll("main .scroll-x, main [role=grid]")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel ?? one.innerText.slice(0, 60))"""


def test_status_screens_need_no_sideways_scrolling(visitor: Visitor) -> None:
    """On a phone a row of a table is a list of names and values, and a list leaves columns to what it opens."""
    page = visitor.page
    page.set_viewport_size(PHONE)
    found = {}
    for path, words in STATUS_SCREENS.items():
        visitor.go(path)
        visitor.wait_for(words)
        found[path] = [*page.evaluate(SIDEWAYS), *visitor.violations()]
    assert {path: some for path, some in found.items() if some} == {}
    visitor.go("/lake/spans/plan")
    visitor.wait_for("To rewrite")
    cell = page.get_by_role("cell").filter(has_text="default").first
    assert cell.evaluate("(one) => getComputedStyle(one, '::before').content") == '"Partition"'


def test_an_unknown_address_is_explained(visitor: Visitor) -> None:
    """The frame stays, and says what is wrong."""
    page = visitor.open("/nothing/here")
    page.get_by_role("heading", name="No such screen").wait_for()
    assert page.get_by_role("navigation", name="Screens").get_by_role("link", name="Logs").is_visible()


def test_every_address_reloads_to_the_same_view(visit: Callable[..., Visitor], server: str) -> None:
    """In the same window, after going back, and in a browser of another time zone."""
    address = f"/logs?{RANGE}&q=service%3Dpayment+severity%3E%3Derror&cols=exception.type&facets=exception.type"
    first = visit(server)
    page = first.open(address + "&zone=Asia/Tokyo", "")
    page.get_by_role("row").nth(3).wait_for()
    page.get_by_role("button", name="HikariPool").or_(
        page.locator("nav[aria-label=Facets] button").first
    ).first.wait_for()
    snapshot = page.get_by_role("grid").aria_snapshot()
    assert "19:0" in snapshot  # 10:0x in UTC
    page.reload()
    page.get_by_role("row").nth(3).wait_for()
    assert page.get_by_role("grid").aria_snapshot() == snapshot
    page.get_by_role("button", name="Live").click()
    page.wait_for_url("**live=1**")
    page.go_back()
    page.get_by_role("row").nth(3).wait_for()
    assert page.get_by_role("grid").aria_snapshot() == snapshot
    other = visit(server, timezone_id="America/New_York", color_scheme="dark")
    page = other.open(address + "&zone=Asia/Tokyo", "")
    page.get_by_role("row").nth(3).wait_for()
    assert page.get_by_role("grid").aria_snapshot() == snapshot


def test_the_wheel_contains_the_page(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The files that setuptools packs are those that were built."""
    if not (FOLDER / INDEX).is_file():
        pytest.skip("page: it is not built (make page)")
    from setuptools import Distribution  # type: ignore[import-untyped]
    from setuptools.command.build_py import build_py  # type: ignore[import-untyped]

    distribution = Distribution({"packages": ["neve"], "package_dir": {"": str(FOLDER.parents[1])}})
    distribution.package_data = {"neve": ["py.typed", "page/*", "page/assets/*"]}
    command = build_py(distribution)
    command.finalize_options()
    packed = {name for _package, _source, _build, names in command.data_files for name in names}
    built = {path.relative_to(FOLDER.parent).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert built <= packed
    project = (FOLDER.parents[2] / "pyproject.toml").read_text()
    assert 'neve = ["py.typed", "page/*", "page/assets/*"]' in project
