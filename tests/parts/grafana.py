"""The backends of Grafana's Tempo and Jaeger data sources: real clients of their APIs, in a program of our own.

The program sends one request through a data source as Grafana does, and prints the frames or the body of the answer.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.parts import golang
from tests.parts.cache import place
from tests.parts.process import PartError

NAME = "grafana-client"
VERSION = "13.1.5"
SECONDS = 120
SOURCE = Path(__file__).parent / "grafana" / "main.go"
MODULES = (
    "github.com/grafana/grafana-jaeger-datasource v0.0.0-20260721210625-9d46d95bdbb6",
    "github.com/grafana/grafana-tempo-datasource v0.0.0-20260820165257-6cc1347c8a29",
)


def program() -> Path:
    """Return the place of the program in the cache."""
    return place(NAME, VERSION) / NAME


def missing() -> str | None:
    """Say why the client can't run here, or None when it can."""
    return None if program().exists() else f"{NAME}: not in the cache (python -m tests.parts.build {NAME})"


def make(into: Path) -> None:
    """Build the program. Modules of the data sources have no versions of their own, so they are named by commits."""
    work = into.parent
    (work / "main.go").write_text(SOURCE.read_text())
    required = "".join(f"require {each}\n" for each in MODULES)
    (work / "go.mod").write_text(f"module neve.test/grafana\n\ngo 1.26\n\n{required}")
    golang.build(".", into / NAME, work)


def ask(source: str, url: str, key: str = "", **request: Any) -> Any:
    """Send a request through a data source, and return the document that it answers. Raises `PartError`."""
    given = json.dumps({"source": source, "url": url, "key": key, **request})
    done = subprocess.run([program()], input=given, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise PartError(f"the data source failed: {done.stderr}")
    return json.loads(done.stdout)
