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
SOURCE = Path(__file__).parent / "grafana"
FILES = ("main.go", "go.mod", "go.sum")


def program() -> Path:
    """Return the place of the program in the cache."""
    return place(NAME, VERSION) / NAME


def missing() -> str | None:
    """Say why the client can't run here, or None when it can."""
    return None if program().exists() else f"{NAME}: not in the cache (python -m tests.parts.build {NAME})"


def make(into: Path) -> None:
    """Build the program.

    The data sources have no versions of their own, so `go.mod` names them by commits. Go's checksum database does not
    have all of these commits: `go.sum` has the checksums. A module proxy that does not serve the two data sources
    refuses them by name: then `GOPROXY=direct` reads them from their repositories.
    """
    work = into.parent
    for name in FILES:
        (work / name).write_bytes((SOURCE / name).read_bytes())
    golang.build(".", into / NAME, work)


def ask(source: str, url: str, key: str = "", **request: Any) -> Any:
    """Send a request through a data source, and return the document that it answers. Raises `PartError`."""
    given = json.dumps({"source": source, "url": url, "key": key, **request})
    done = subprocess.run([program()], input=given, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise PartError(f"the data source failed: {done.stderr}")
    return json.loads(done.stdout)
