"""A fresh lake with a `neve serve` that asks for keys, and one key for each organization."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import psutil
import yaml

from neve.app.settings import load_settings
from neve.app.wiring import build_lake, build_state
from neve.state.keys import Keys
from neve.state.scopes import Scope
from tests.chaos.house import COMPILED_ONCE, NEVE
from tests.chaos.service import Service, ServiceError
from tests.parts.process import free_ports
from tests.siege.plan import HONEST, HOSTILE, limits

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake
    from tests.siege.plan import Plan

START_SECONDS = 180.0
ERROR = '"level": "error"'
SECTIONS = ("receiver", "query", "serve")


class House:
    """The service: its configuration, its ports, its keys and its processes."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.http_port, self.grpc_port, self.query_port, health_port = free_ports(4)
        self.config = folder / "neve.yaml"
        ports: dict[str, dict[str, Any]] = {
            "receiver": {"http_port": self.http_port, "grpc_port": self.grpc_port, "auth": "keys"},
            "query": {"port": self.query_port, "auth": "keys"},
            "serve": {"port": health_port},
        }
        allowed = limits()
        sections = {name: {**ports[name], **allowed.get(name, {})} for name in SECTIONS}
        self.config.write_text(yaml.safe_dump({**_lake(folder, plan), **sections}))
        self.service = Service("serve", [NEVE, "-c", str(self.config), "serve", "--json"], folder, COMPILED_ONCE)
        self.keys: dict[str, str] = {}

    def start(self) -> None:
        """Make the tables and the keys, then start the service and wait until it listens."""
        environment = {**os.environ, **COMPILED_ONCE}
        command = [NEVE, "-c", str(self.config), "init"]
        subprocess.run(command, check=True, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL)
        self.keys = self._make_keys()
        self.service.start()
        if not self.service.wait_until(lambda service: bool(service.lines()), START_SECONDS):
            raise ServiceError(f"the service does not listen after {START_SECONDS} seconds\n{self.service.tail()}")
        json.loads(self.service.lines()[0])

    @property
    def lake(self) -> Lake:
        """The tables, read anew."""
        return build_lake(load_settings(str(self.config), {}))

    @property
    def errors(self) -> int:
        """How many errors the service logged."""
        logs = self.folder.glob("serve-*.log")
        return sum(log.read_text(errors="replace").count(ERROR) for log in logs)

    def _make_keys(self) -> dict[str, str]:
        """A key for each organization that may send, ask and, where there is such a scope, announce."""
        state = build_state(load_settings(str(self.config), {}))
        scopes = [scope for scope in Scope if scope.value in ("write", "read", "announce")]
        try:
            return {name: Keys(state).create(name, "siege", scopes)[1] for name in (HONEST, HOSTILE)}
        finally:
            state.close()


def memory_mb(pid: int) -> float:
    """What a process and all its children hold; the pages of files, which most of them share, count once.

    The kernel keeps these counts. For the exact share of each page it would walk through gigabytes of them. That takes
    up to a tenth of a second of a processor that the service needs, and the process can't map memory meanwhile.
    """
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0.0
    counts = [_resident_kilobytes(process.pid) for process in processes]
    return (sum(own for own, _files in counts) + max(files for _own, files in counts)) / 1024


def _resident_kilobytes(pid: int) -> tuple[int, int]:
    """Memory of a process alone, and pages of files that it has mapped; nothing for one that has ended meanwhile."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as lines:
            found = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    except OSError:
        return 0, 0
    anonymous, shared, files = (int(found.get(name, ["0"])[0]) for name in ("RssAnon", "RssShmem", "RssFile"))
    return anonymous + shared, files


def _lake(folder: Path, plan: Plan) -> dict[str, Any]:
    return {
        "lake": {"warehouse": f"{folder}/warehouse", "exchange": f"{folder}/exchange"},
        "catalog": {"path": f"{folder}/catalog.db"},
        "state": {"path": f"{folder}/state.db"},
        "raw": {"location": f"{folder}/raw", "min_free_bytes": 0, "keep_seconds": 60},
        "ingest": {"checkpoints": f"{folder}/checkpoints", "commit_seconds": plan.commit_seconds},
        "spark": {"driver_memory": "1g", "log_file": f"{folder}/spark.log"},
    }
