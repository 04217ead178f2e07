"""Write the pages that are made from code: `python -m docs.generate`, or `--check` to only compare them."""

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from deploy.chart.documents import render_page
from tools.metric_catalog import read_catalog

from docs.pages.cli import cli_page
from docs.pages.configuration import configuration_page
from docs.pages.metrics import metrics_page
from docs.pages.tables import tables_page
from neve.app.settings import Settings
from neve.cli.main import neve
from neve.model.tables import TABLES

FOLDER = Path(__file__).parent


@cache
def pages() -> dict[str, str]:
    """Each page's text by its file name; made once, which takes a while."""
    return {
        "cli.md": cli_page(neve),
        "configuration.md": configuration_page(Settings),
        "deploy/values.md": render_page(),
        "metrics.md": metrics_page(read_catalog()),
        "tables.md": tables_page(TABLES),
    }


def stale(folder: Path = FOLDER) -> list[str]:
    """The pages that are missing or do not say what the code says."""
    return [name for name, text in pages().items() if _text(folder / name) != text]


def write(folder: Path = FOLDER) -> None:
    """Write every page."""
    for name, text in pages().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or name the stale ones; 1 when there are any."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, and exit with 1 when a page is stale")
    if not parser.parse_args(arguments).check:
        write()
        return 0
    found = stale()
    for name in found:
        sys.stderr.write(f"docs/{name} is stale: run `make docs`\n")
    return 1 if found else 0


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
