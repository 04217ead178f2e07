"""Alertmanager, which receives alerts, and amtool, its command line."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.parts import cache, golang
from tests.parts.probe import serves
from tests.parts.process import HOST, Part, free_port, running, scratch

NAME = "alertmanager"
AMTOOL = "amtool"
VERSION = "0.34.2"
MODULE = "github.com/prometheus/alertmanager"
PAGE = Path("ui") / "app" / "dist" / "index.html"


@dataclass(frozen=True)
class Alertmanager:
    """A running server."""

    port: int

    @property
    def uri(self) -> str:
        """Return its address."""
        return f"http://{HOST}:{self.port}"


def missing() -> str | None:
    """Say why the server can't run here, or None when it can."""
    return None if program().exists() else f"{NAME}: not in the cache (python -m tests.parts.build {NAME})"


def program() -> Path:
    """Return where the cache keeps the server."""
    return cache.place(NAME, VERSION) / NAME


def make(into: Path) -> None:
    """Build the server and amtool from a copy of the module.

    The module embeds the files of a web page that its archive does not have. The copy gets an empty page.
    """
    source = into.parent / "source"
    shutil.copytree(golang.download(MODULE, f"v{VERSION}", into.parent), source)
    for folder in (source, *source.rglob("*/")):  # the cache of modules is read-only
        folder.chmod(0o755)
    (source / PAGE).parent.mkdir()
    (source / PAGE).touch()
    for command in (NAME, AMTOOL):
        golang.build(f"{MODULE}/cmd/{command}", into / command, source)


def amtool(uri: str, *arguments: str) -> str:
    """Run amtool on the server at an address and return its output. Raises `CalledProcessError` if it fails."""
    command: Sequence[str] = [str(program().with_name(AMTOOL)), f"--alertmanager.url={uri}", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


@contextmanager
def alertmanager(config: str) -> Iterator[Alertmanager]:
    """Run a server without alerts, with a configuration in YAML."""
    with scratch(NAME) as folder:
        port = free_port()
        path = folder / "alertmanager.yml"
        path.write_text(config)
        command = [
            str(program()),
            f"--config.file={path}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address={HOST}:{port}",
            "--cluster.listen-address=",  # no gossip with other servers
            "--log.level=warn",
        ]
        with running(Part(NAME, command, lambda: serves(port, "/-/ready"), folder)):
            yield Alertmanager(port)
