"""One lake, one server and one browser for all tests of the page. Every test watches requests and complaints."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from neve.api.page.files import FOLDER, INDEX
from neve.app.settings import load_settings
from neve.state.keys import Keys
from neve.state.scopes import Scope
from neve.state.store import StateStore
from tests.page.demo_lake import ORGANIZATION, RANGE, make_demo_lake, serve_api
from tests.page.explore_lake import EXPLORE, fill_explore_lake
from tests.page.operator_lake import Operated, fill_state, fill_tables, open_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

    from tests.page.demo_lake import DemoLake

CHROMIUM = Path(os.environ.get("NEVE_CHROMIUM", "/usr/bin/chromium"))
AXE = Path(__file__).parents[2] / "page" / "node_modules" / "axe-core" / "axe.min.js"
SIZE: Any = {"width": 1280, "height": 800}
WAIT_MILLISECONDS = 60_000
GO = "(path) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder that start a server or a browser. The hook sees the tests of all folders."""
    here, dear = Path(__file__).parent, {"operated", "keyed", "browser", "demo_lake"}
    for item in items:
        if here in item.path.parents and not dear.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("e2e")


@pytest.fixture(scope="session")
def demo_lake(tmp_path_factory: pytest.TempPathFactory) -> DemoLake:
    """The lake that all tests of the page read; a test that writes uses an organization of its own."""
    return make_demo_lake(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def operated(demo_lake: DemoLake) -> Iterator[Operated]:
    """The server without keys, whose callers may operate. Its state has jobs, compactions, attempts and costs."""
    if not (FOLDER / INDEX).is_file():
        pytest.skip("page: it is not built (make page)")
    fill_tables(demo_lake)
    config = demo_lake.write_config("open", query={"open_admin": True, "log": False})
    documents = open_documents(config)
    fill_state(documents)
    with serve_api(config) as addresses:
        yield Operated(addresses["query"], config, documents, demo_lake.lake)
    documents.close()


@pytest.fixture(scope="session")
def server(operated: Operated) -> str:
    """The address of the server without keys."""
    return operated.server


@pytest.fixture(scope="session")
def keyed(demo_lake: DemoLake) -> Iterator[Keyed]:
    """The server with keys, of which each organization has one. One organization has a huge trace."""
    if not (FOLDER / INDEX).is_file():
        pytest.skip("page: it is not built (make page)")
    fill_explore_lake(demo_lake)
    sections = {"query": {"auth": "keys", "log_seconds": 1}, "receiver": {"key_seconds": 0.1}}
    config = demo_lake.write_config("keyed", **sections)
    store = StateStore(load_settings(str(config)).state)
    keys = Keys(store)
    made = {who: keys.create(who, "page", [Scope.READ])[1] for who in (ORGANIZATION, "globex", "empty", EXPLORE)}
    with serve_api(config) as addresses:
        yield Keyed(addresses["query"], made)
    store.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium of the system; none is downloaded."""
    if not CHROMIUM.is_file():
        pytest.skip(f"chromium: there is no {CHROMIUM} (apt-get install chromium, or set NEVE_CHROMIUM)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield opened
        opened.close()


@dataclass(frozen=True)
class Keyed:
    """A server with keys, and the key of each organization."""

    server: str
    keys: dict[str, str]

    def header(self, organization: str) -> dict[str, str]:
        """Return the header that a window of an organization sends with each request."""
        return {"x-api-key": self.keys[organization]}


@dataclass
class Visitor:
    """A browser window of its own, and what must not happen in it."""

    page: Page
    server: str
    complaints: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, path: str, parameters: str = RANGE) -> Page:
        """Open a screen in the range of the demo's run, and wait until it is there."""
        mark = "&" if "?" in path else "?"
        self.page.goto(f"{self.server}{path}{mark}{parameters}" if parameters else f"{self.server}{path}")
        self.page.get_by_role("main").wait_for()
        return self.page

    def go(self, path: str, parameters: str = RANGE) -> Page:
        """Change to another address within the loaded page, as a link does: cheaper than loading it again."""
        if not self.page.url.startswith(self.server):
            return self.open(path, parameters)
        mark = "&" if "?" in path else "?"
        self.page.evaluate(GO, f"{path}{mark}{parameters}")
        return self.page

    def wait_for(self, words: str) -> None:
        """Wait until a text is in sight, and nothing loads."""
        main = self.page.get_by_role("main")
        main.get_by_text(words).first.wait_for()
        self.page.locator("main [aria-busy=true]").first.wait_for(state="detached")

    def note_request(self, request: Request) -> None:
        """Remember a request, and that it left the origin."""
        self.requests.append(request.url)
        place = urlsplit(request.url)
        if place.scheme not in ("data", "blob") and f"{place.scheme}://{place.netloc}" != self.server:
            self.strays.append(request.url)

    def note_message(self, message: ConsoleMessage) -> None:
        """Remember an error of the console: a violation of the security policy is one."""
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.complaints.append(message.text)

    def violations(self) -> list[str]:
        """Run axe in light, then its rules of colours in dark, and return what it finds: rule, help, first element."""
        if not AXE.is_file():
            pytest.skip("axe: page/node_modules is missing (make page)")
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")["violations"]
        self.page.emulate_media(color_scheme="dark")
        found += self.page.evaluate("() => axe.run(document, {runOnly: ['color-contrast']})")["violations"]
        self.page.emulate_media(color_scheme="light")
        return [f"{one['id']}: {one['help']} ({one['nodes'][0]['html'][:200]})" for one in found]


@pytest.fixture(scope="session")
def contexts(browser: Browser) -> Iterator[dict[str, BrowserContext]]:
    """Contexts by their options: windows with the same ones share the cache of scripts."""
    found: dict[str, BrowserContext] = {}
    yield found
    for context in found.values():
        context.close()


@pytest.fixture
def visit(browser: Browser, contexts: dict[str, BrowserContext]) -> Iterator[Callable[..., Visitor]]:
    """Open windows at a server; requests to others and complaints of the console fail the test."""
    visitors: list[Visitor] = []

    def open_window(at: str, **options: Any) -> Visitor:
        options = {"viewport": SIZE, "timezone_id": "Europe/Berlin", "color_scheme": "light", **options}
        context = contexts.get(repr(options)) or browser.new_context(**options)
        contexts[repr(options)] = context
        context.set_default_timeout(WAIT_MILLISECONDS)
        visitor = Visitor(context.new_page(), at)
        visitor.page.on("request", visitor.note_request)
        visitor.page.on("console", visitor.note_message)
        visitor.page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
        visitors.append(visitor)
        return visitor

    yield open_window
    for visitor in visitors:
        visitor.page.close()
    for context in {visitor.page.context for visitor in visitors}:
        context.clear_cookies()
    assert [(one.strays, one.complaints) for one in visitors] == [([], []) for _ in visitors]


@pytest.fixture
def visitor(visit: Callable[..., Visitor], server: str) -> Visitor:
    """A window at the server without keys, with a light page."""
    return visit(server)
