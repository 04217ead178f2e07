"""A real Nessie server from its Maven artifact, which keeps its catalog in memory."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.lake.spark.java import parse_major_version
from tests.parts import cache, java
from tests.parts.probe import serves
from tests.parts.process import HOST, Part, free_port, running, scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "0.99.0"
OLDEST_JAVA = 21
HEAP = "-Xmx384m"


@dataclass(frozen=True)
class Nessie:
    """A running server."""

    port: int

    @property
    def url(self) -> str:
        """The address of its API."""
        return f"http://{HOST}:{self.port}/api/v2"

    def put(self, branch: str, table: str, snapshot: int) -> str:
        """Commit a table to a branch, as a catalog would; the branch's commit then."""
        head = self._ask(f"/trees/{branch}")["reference"]["hash"]
        known = self._ask(f"/trees/{branch}@{head}/contents", {"requestedKeys": [{"elements": [table]}]})["contents"]
        content = {
            **({"id": known[0]["content"]["id"]} if known else {}),
            "type": "ICEBERG_TABLE",
            "metadataLocation": f"file:///{table}/{snapshot}.json",
            "snapshotId": snapshot,
            "schemaId": 0,
            "specId": 0,
            "sortOrderId": 0,
        }
        operation = {"type": "PUT", "key": {"elements": [table]}, "content": content}
        body: dict[str, Any] = {"commitMeta": {"message": "test"}, "operations": [operation]}
        return str(self._ask(f"/trees/{branch}@{head}/history/commit", body)["targetBranch"]["hash"])

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=600) as reply:  # noqa: S310 - our own loopback
            return json.load(reply)


def jar() -> Path:
    """Where the cache keeps the server: `org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner`."""
    return cache.place("nessie", VERSION) / f"nessie-quarkus-{VERSION}-runner.jar"


def missing() -> str | None:
    """Say why the server can't run here, or None when it can."""
    if not jar().exists():
        return f"Nessie: no {jar().name} in the cache"
    return None if _java() else f"Nessie: no Java {OLDEST_JAVA} or later was found"


@contextmanager
def nessie() -> Iterator[Nessie]:
    """Run an empty server."""
    port = free_port()
    settings = {
        "quarkus.http.host": HOST,
        "quarkus.http.port": port,
        "quarkus.management.host": HOST,
        "quarkus.management.port": free_port(),
        "nessie.version.store.type": "IN_MEMORY",
    }
    options = [f"-D{key}={value}" for key, value in settings.items()]
    command = [str(_java()), HEAP, *java.SMALL, *options, "-jar", str(jar())]
    with scratch("nessie") as folder:
        part = Part("Nessie", command, partial(serves, port, "/api/v2/config"), folder)
        with running(part):
            yield Nessie(port)


def _java() -> str | None:
    """The first Java that is new enough: the usual one, or one that stands beside it."""
    beside = sorted(map(str, Path("/usr/lib/jvm").glob("*/bin/java")))
    return next((path for path in (java.program(), *beside) if path and _major(path) >= OLDEST_JAVA), None)


def _major(path: str) -> int:
    said = subprocess.run([path, "-version"], capture_output=True, text=True, check=True, timeout=600).stderr
    return parse_major_version(said.split('"')[1])
