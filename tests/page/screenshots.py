"""Write the pictures of the documentation: `python -m tests.page.screenshots [FOLDER]`, or `make screenshots`."""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.page.conftest import CHROMIUM, WAIT_MILLISECONDS
from tests.page.demo_lake import RANGE, make_demo_lake, serve_api
from tests.page.operator_lake import fill_state, open_documents

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZE: Any = {"width": 1280, "height": 760}
COLOURS = 256  # the most frequent ones: a third of the bytes; marks of a few pixels may get a near colour
# The name of a picture, its address, and the text that is there when it is complete.
PICTURES = (
    ("logs", f"/logs?{RANGE}&q=severity>%3Dwarn", "all "),
    ("trace", f"/trace?{RANGE}&order=errors&service=payment&operation=HikariPool-1.getConnection", "payment"),
    ("plan", "/lake/spans/plan", "To rewrite"),
)


def open_failed_trace(page: Page) -> None:
    """Open the first trace of the list: its id is another one in each run."""
    page.get_by_role("grid", name="Traces").get_by_role("row").nth(1).click()
    page.get_by_role("complementary", name="Span").get_by_text("HikariPool-1").first.wait_for()


def reduce_colours(picture: Image.Image) -> Image.Image:
    """Keep the most frequent colours, and give each other pixel the nearest of them."""
    counts = sorted(picture.getcolors(picture.width * picture.height) or [], reverse=True)
    palette = Image.new("P", (1, 1))
    colours: list[Any] = [colour for _count, colour in counts[:COLOURS]]
    palette.putpalette([part for colour in colours for part in colour])
    return picture.quantize(COLOURS, palette=palette, dither=Image.Dither.NONE)


def take_pictures(browser: Browser, server: str, folder: Path) -> list[Path]:
    """Take every picture, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, address, text in PICTURES:
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.set_default_timeout(WAIT_MILLISECONDS)
        page.goto(server + address)
        page.get_by_role("main").get_by_text(text).first.wait_for()
        page.reload()  # the first query starts a worker, which is not what the picture is about
        page.get_by_role("main").get_by_text(text).first.wait_for()
        if name == "trace":
            open_failed_trace(page)
        page.wait_for_load_state("networkidle")
        made.append(folder / f"{name}.png")
        with Image.open(io.BytesIO(page.screenshot())) as picture:
            reduce_colours(picture.convert("RGB")).save(made[-1], optimize=True)
        page.close()
    return made


def main(folder: Path) -> None:
    """Make a lake, serve it, and take the pictures."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        lake = make_demo_lake(Path(place))
        config = lake.write_config("pictures", query={"open_admin": True, "log": False})
        documents = open_documents(config)
        fill_state(documents)
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        with serve_api(config) as addresses:
            for path in take_pictures(browser, addresses["query"], folder):
                sys.stdout.write(f"{path.name}: {path.stat().st_size:,} bytes\n")
        browser.close()
        documents.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
