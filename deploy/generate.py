"""Write the generated files of `deploy`: `python -m deploy.generate`, or `--check` to only compare them."""

import argparse
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from deploy.chart.documents import render_schema, render_values
from deploy.monitoring.dashboards import DASHBOARDS
from deploy.monitoring.grafana import render

FOLDER = Path(__file__).parent
GRAFANA, RULES = "monitoring/grafana", "monitoring/prometheus/rules.yaml"
CHART = "helm/neve"
DASHBOARD_FOLDERS = (GRAFANA, f"{CHART}/files/dashboards")


@cache
def files() -> dict[str, str]:
    """Return the text of each file by its path below `deploy`.

    A packaged chart has only files of its own folder, so that it has copies of rules and dashboards.
    """
    dashboards = {one.name: json.dumps(render(one), indent=1) + "\n" for one in DASHBOARDS}
    return {
        **{f"{folder}/{name}.json": text for folder in DASHBOARD_FOLDERS for name, text in dashboards.items()},
        f"{CHART}/files/rules.yaml": (FOLDER / RULES).read_text(encoding="utf-8"),
        f"{CHART}/values.yaml": render_values(),
        f"{CHART}/values.schema.json": render_schema(),
    }


def list_stale(folder: Path = FOLDER) -> list[str]:
    """Return the files that differ from the code, and dashboards that the code does not have."""
    made = files()
    stale = [name for name, text in made.items() if _read(folder / name) != text]
    present = [f"{place}/{path.name}" for place in DASHBOARD_FOLDERS for path in (folder / place).glob("*.json")]
    return sorted({*stale, *(name for name in present if name not in made)})


def write(folder: Path = FOLDER) -> None:
    """Write every file."""
    for name, text in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or name the stale ones; 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m deploy.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, and exit with 1 if a file is stale")
    if not parser.parse_args(arguments).check:
        write()
        return 0
    stale = list_stale()
    for name in stale:
        sys.stderr.write(f"deploy/{name} is stale: run `make docs`\n")
    return 1 if stale else 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
