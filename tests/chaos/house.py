"""A lake of its own for a run: a folder with a configuration, fixed ports, and Neve's commands as services."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from neve.app.settings import load_settings
from neve.app.wiring import build_lake
from tests.chaos import session
from tests.chaos.service import Service
from tests.parts import cache
from tests.parts.process import free_ports

if TYPE_CHECKING:
    from neve.lake.lake import Lake

NEVE = str(Path(sys.executable).with_name("neve"))
EVERY_SECONDS = 2
# Small, so that a short run seals, shares out and cleans up as often as a long one.
SEGMENT_BYTES, SEGMENT_SECONDS, KEEP_SECONDS, TASK_BYTES = 256 * 1024, 0.5, 5, 512 * 1024
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What is started over and over should be compiled once, also where the machine says otherwise.
COMPILED_ONCE = {"PYTHONPYCACHEPREFIX": str(cache.home() / "pycache"), "PYTHONDONTWRITEBYTECODE": ""}


class House:
    """Where everything of a run is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.http_port, self.grpc_port = free_ports(2)
        self.config = folder / "neve.yaml"
        self.config.write_text(yaml.safe_dump(self._settings()))

    @property
    def lake(self) -> Lake:
        """The tables, read anew."""
        return build_lake(load_settings(str(self.config), {}))

    def init(self) -> None:
        """Make the tables."""
        environment = {**os.environ, **COMPILED_ONCE}
        subprocess.run(self._command("init"), check=True, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL)

    def receiver(self) -> Service:
        """`neve serve --receiver`."""
        return self._service("receiver", "serve", "--receiver", "--json")

    def stream(self) -> Service:
        """`neve ingest raw`, which goes on."""
        return self._service("stream", "ingest", "raw", "--every", str(EVERY_SECONDS), "--json")

    def last_stream(self) -> Service:
        """`neve ingest raw`, which ends when it has caught up."""
        return self._service("last-stream", "ingest", "raw", "--available-now", "--json")

    def has_spoken(self, service: Service) -> bool:
        """Whether a service said something: a receiver does when it listens."""
        return bool(service.lines())

    def has_workers(self, service: Service) -> bool:
        """Whether Spark has begun to work for a stream."""
        return bool(session.workers(service.pid))

    def has_begun_to_commit(self, service: Service) -> bool:
        """Whether a table got new metadata since a stream was started: a manifest first, its new state last."""
        folders = self.folder.glob("warehouse/*/*/metadata")
        return any(folder.stat().st_mtime > service.started for folder in folders)

    def _service(self, name: str, *arguments: str) -> Service:
        return Service(name, self._command(*arguments), self.folder, COMPILED_ONCE)

    def _command(self, *arguments: str) -> list[str]:
        return [NEVE, "-c", str(self.config), *arguments]

    def _settings(self) -> dict[str, Any]:
        folder = str(self.folder)
        return {
            "organization": "chaos",
            "lake": {"warehouse": f"{folder}/warehouse", "exchange": f"{folder}/exchange"},
            "catalog": {"path": f"{folder}/catalog.db"},
            "state": {"path": f"{folder}/state.db"},
            "spark": {
                "master": "local[2]",
                "driver_memory": "1g",
                "log_file": f"{folder}/spark.log",
                "conf": {"spark.driver.extraJavaOptions": QUICK_JVM, "spark.sql.shuffle.partitions": "1"},
            },
            "raw": {
                "location": f"{folder}/raw",
                "min_free_bytes": 0,
                "segment_bytes": SEGMENT_BYTES,
                "segment_seconds": SEGMENT_SECONDS,
                "keep_seconds": KEEP_SECONDS,
            },
            "receiver": {"http_port": self.http_port, "grpc_port": self.grpc_port},
            "ingest": {"checkpoints": f"{folder}/checkpoints", "task_bytes": TASK_BYTES},
        }
