"""A worker as a part: does one job after the other, and has what it committed announced."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.pools import in_pool

if TYPE_CHECKING:
    from neve.app.serve.part import Say
    from neve.lake.lake import Lake
    from neve.work.worker import Worker


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
        threading.Thread(target=self._give_back, args=(stop,), daemon=True).start()
        with in_pool(self.lake, "tend"):
            self.worker.run(stop)

    def _give_back(self, stop: threading.Event) -> None:
        """Shortly before the process is ended, so that another one need not wait for the job's lease to expire."""
        stop.wait()
        time.sleep(self.patience)
        self.worker.release()
