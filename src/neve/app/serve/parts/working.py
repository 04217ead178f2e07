"""A worker as a part: does one job after the other, and has what it committed announced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.pools import in_pool

if TYPE_CHECKING:
    import threading

    from neve.app.serve.part import Say
    from neve.lake.lake import Lake
    from neve.work.worker import Worker


@dataclass(frozen=True)
class WorkPart:
    """Runs a worker; its Spark jobs share a pool of their own, so that ingestion never waits for them."""

    name: str
    worker: Worker
    lake: Lake

    def run(self, stop: threading.Event, say: Say) -> None:
        """Work until told to stop; what is under way then is put back for another one, unless it ends in time."""
        say({"tasks": sorted(task.value for task in self.worker.handlers)})
        with in_pool(self.lake, "tend"):
            self.worker.run(stop)
