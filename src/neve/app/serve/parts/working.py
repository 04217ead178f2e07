"""A worker as a part: does one job after the other, and has what it committed announced."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.pools import in_pool

if TYPE_CHECKING:
    from neve.app.serve.part import Say
    from neve.lake.lake import Lake
    from neve.work.worker import Worker

LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class WorkPart:
    """Runs a worker; its Spark jobs share a pool of their own, so that ingestion never waits for them."""

    name: str
    worker: Worker
    lake: Lake
    patience: float

    def run(self, stop: threading.Event, say: Say) -> None:
        """Work until told to stop; what is under way then is put back for another one, unless it ends in time."""
        say({"tasks": sorted(task.value for task in self.worker.handlers)})
        ended = threading.Event()
        threading.Thread(target=self._give_back, args=(stop, ended), daemon=True).start()
        try:
            with in_pool(self.lake, "tend"):
                self.worker.run(stop)
        finally:
            ended.set()

    def _give_back(self, stop: threading.Event, ended: threading.Event) -> None:
        """Shortly before the process is ended, so that another one need not wait for the job's lease to expire."""
        while not stop.wait(LOOK_SECONDS):
            if ended.is_set():
                return
        if not ended.wait(self.patience):
            self.worker.release()
