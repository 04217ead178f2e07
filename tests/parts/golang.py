"""Programs built from Go modules."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.parts.command import CommandError, run

BUILDER = "go.opentelemetry.io/collector/cmd/builder"


def missing() -> str | None:
    """Say why nothing can be built here, or None when it can."""
    return None if shutil.which("go") else "no go found (Go 1.25 or later)"


def build_collector(manifest: Path, version: str, into: Path) -> None:
    """Build the collector that `manifest` lists, by the builder of the same version, so that core and parts agree.

    The builder tidies its module; `-e` lets that go on without modules that only its components' tests import.
    """
    work = into.parent
    install(f"{BUILDER}@v{version}", work)
    builder = [str(work / "builder"), f"--config={manifest}", "--ldflags=-s -w"]
    _politely(builder, work, GOFLAGS="-e -buildvcs=false")
    (work / "source" / "otelcol").rename(into / "otelcol")


def install(module: str, into: Path) -> None:
    """Build the program of `module@version` into a folder."""
    _politely(["go", "install", "-trimpath", "-ldflags=-s -w", module], into, GOBIN=str(into))


def download(module: str, version: str, work: Path) -> Path:
    """Return the read-only folder of a module's source in the cache of Go."""
    found = subprocess.run(
        ["go", "mod", "download", "-json", f"{module}@{version}"], cwd=work, capture_output=True, text=True, check=False
    )
    answer = json.loads(found.stdout or "{}")
    if "Dir" not in answer:
        raise CommandError(f"can't download {module}@{version}: {answer.get('Error') or found.stderr}")
    return Path(answer["Dir"])


def build(package: str, program: Path, module: Path, tags: str = "") -> None:
    """Build a program of the module in the folder `module`, or of one that its go.mod requires."""
    command = ["go", "build", "-mod=mod", "-trimpath", "-ldflags=-s -w", "-tags", tags, "-o", str(program), package]
    _politely(command, module)


def _politely(command: Sequence[str], folder: Path, **environment: str) -> None:
    """Run a build at low priority and without C, so that programs need nothing of the machine that built them."""
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    run([*nice, *command], folder, {**os.environ, "CGO_ENABLED": "0", **environment})
