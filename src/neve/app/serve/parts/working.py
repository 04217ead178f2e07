"""A worker as a part: does one job after the other, and has what it committed announced."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from neve.lake.pools import in_pool

if TYPE_CHECKING:
    from neve.app.serve.part import Say
    from neve.lake.lake import Lake
    from neve.work.worker import Worker

LOOK_SECONDS = 0.5

log = structlog.get_logger("neve.work")


@dataclass(frozen=True)
class WorkPart:
    """Runs a worker; its Spark jobs share a pool of their own, so that ingestion never waits for them."""

    name: str
    worker: Worker
    lake: Lake
    patience: float

    def run(self, stop: threading.Event, say: Say) -> None:
        """Work until told to stop; what is under way then is put back for another one, unless it ends in time.

        A job that was put back may go on for a while, in a thread that ends with the process.
        """
        say({"tasks": sorted(task.value for task in self.worker.handlers)})
        working: Future[None] = Future()
        threading.Thread(target=self._work, args=(stop, working), name=f"{self.name} at work", daemon=True).start()
        while not stop.wait(LOOK_SECONDS):
            if working.done():
                break
        try:
            working.result(self.patience)
        except TimeoutError:
            job = self.worker.release()
            log.warning("job given back: it did not end in time", part=self.name, job=job.id if job else None)

    def _work(self, stop: threading.Event, working: Future[None]) -> None:
        try:
            with in_pool(self.lake, "tend"):
                self.worker.run(stop)
        except BaseException as error:
            working.set_exception(error)
        else:
            working.set_result(None)
