"""A lake of its own for a soak: a folder, fixed ports, and one `neve serve` or two as services."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import yaml

from neve.app.settings import load_settings
from neve.app.wiring import build_documents, build_lake
from tests.chaos import session
from tests.chaos.house import COMPILED_ONCE, NEVE
from tests.chaos.service import Service, ServiceError
from tests.parts.process import HOST, free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.state.documents import Documents
    from tests.soak.plan import Plan

START_SECONDS = 120.0
REAP_SECONDS = 10.0
ERROR = '"level": "error"'
# Short enough for a run of minutes to see traces decided and windows closed.
GRACE_SECONDS, CYCLE_SECONDS, HOT_SECONDS = 30, 20, 60


class House:
    """One service of a lake: its configuration, its ports and its process."""

    def __init__(self, folder: Path, plan: Plan, number: int = 1, shared: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        self.name = f"serve{number}"
        self.http_port, grpc_port, self.query_port, health_port = free_ports(4)
        ports = {
            "receiver": {"http_port": self.http_port, "grpc_port": grpc_port},
            "query": {"port": self.query_port},
            "serve": {"port": health_port},
        }
        self.config = folder / f"neve{number}.yaml"
        spark = {"driver_memory": "1g", "log_file": f"{folder}/spark{number}.log"}
        self.config.write_text(yaml.safe_dump({**_lake(folder, plan), "spark": spark, **ports, **(shared or {})}))
        self._former: list[int] = []
        self.service = Service(self.name, [NEVE, "-c", str(self.config), "serve", "--json"], folder, COMPILED_ONCE)

    @property
    def settings(self) -> Settings:
        """What the service is set to."""
        return load_settings(str(self.config), {})

    @property
    def lake(self) -> Lake:
        """The tables, read anew."""
        return build_lake(self.settings)

    @property
    def documents(self) -> Documents:
        """What the services share; whoever asks closes it."""
        return build_documents(self.settings)

    @property
    def receiver(self) -> str:
        """Where OTLP is sent to."""
        return f"http://{HOST}:{self.http_port}"

    def init(self) -> None:
        """Make the tables."""
        command, environment = [NEVE, "-c", str(self.config), "init"], {**os.environ, **COMPILED_ONCE}
        subprocess.run(command, check=True, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL)

    @property
    def errors(self) -> int:
        """How many errors the service logged, in all its lives."""
        logs = self.folder.glob(f"{self.name}-*.log")
        return sum(log.read_text(errors="replace").count(ERROR) for log in logs)

    def start_again(self) -> None:
        """Start the service once more after its supervisor died; what that left behind is on its own."""
        self.service.wait(REAP_SECONDS)
        self._former.append(self.service.pid)
        self.service.start()

    def sweep(self) -> None:
        """Leave nothing running."""
        self.service.kill()
        for leader in self._former:
            session.kill(session.members(leader))

    def await_addresses(self) -> dict[str, Any]:
        """Where the service says that it listens."""
        if not self.service.wait_until(lambda service: bool(service.lines()), START_SECONDS):
            raise ServiceError(f"{self.name} does not listen after {START_SECONDS} seconds\n{self.service.tail()}")
        addresses: dict[str, Any] = json.loads(self.service.lines()[0])
        return addresses


def _lake(folder: Path, plan: Plan) -> dict[str, Any]:
    return {
        "organization": "soak",
        "lake": {"warehouse": f"{folder}/warehouse", "exchange": f"{folder}/exchange"},
        "catalog": {"path": f"{folder}/catalog.db"},
        "state": {"path": f"{folder}/state.db"},
        "raw": {"location": f"{folder}/raw", "min_free_bytes": 0, "keep_seconds": 60},
        "ingest": {"checkpoints": f"{folder}/checkpoints", "commit_seconds": plan.commit_seconds},
        "compact": {"hot_seconds": HOT_SECONDS},
        "rollup": {"grace_seconds": GRACE_SECONDS},
        "tail": {"inactivity_seconds": plan.inactivity_seconds, "interval_seconds": CYCLE_SECONDS},
    }
