"""Write the pictures of the documentation: `python -m tests.page.screenshots [FOLDER]`, or `make screenshots`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from tests.page.conftest import CHROMIUM
from tests.page.demo_lake import RANGE, make_demo_lake, serve_api

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZE: Any = {"width": 1280, "height": 760}
# The name of a picture, its address, and the text that is there when it is complete.
PICTURES = (("logs", f"/logs?{RANGE}&q=severity>%3Dwarn", "all "),)


def take_pictures(browser: Browser, server: str, folder: Path) -> list[Path]:
    """Take every picture, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, address, text in PICTURES:
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(server + address)
        page.get_by_text(text).first.wait_for()
        page.wait_for_load_state("networkidle")
        made.append(folder / f"{name}.png")
        page.screenshot(path=made[-1])
        page.close()
    return made


def main(folder: Path) -> None:
    """Make a lake, serve it, and take the pictures."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        lake = make_demo_lake(Path(place))
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        with serve_api(lake.write_config("pictures")) as addresses:
            for path in take_pictures(browser, addresses["query"], folder):
                sys.stdout.write(f"{path.name}: {path.stat().st_size:,} bytes\n")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
