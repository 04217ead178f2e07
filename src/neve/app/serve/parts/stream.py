"""A stream of ingestion as a part: among all that share a lake, one runs it and the others stand by."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.app.streams import keep_running, log_batch
from neve.errors import LeaseLost, LeaseTaken
from neve.lake.leases import work_under
from neve.lake.pools import in_pool
from neve.model.signals import Signal

if TYPE_CHECKING:
    from neve.app.serve.part import Say
    from neve.app.serve.parts.announcing import Noted
    from neve.ingest.stream.job import StreamJob, Tell
    from neve.ingest.stream.result import BatchResult
    from neve.lake.documents import Documents
    from neve.lake.leases import Lease

LEASE_SECONDS = 15.0
STANDBY_SECONDS, FOLLOW_SECONDS = 2.0, 0.5
Beside = Callable[[threading.Event], AbstractContextManager[None]]
TABLES = {Signal.LOGS.value: "logs", Signal.METRICS.value: "metrics", Signal.TRACES.value: "spans"}


@dataclass(frozen=True)
class StreamPart:
    """Runs one stream under a lease, and has its commits announced; what runs `beside` it ends with it.

    `instance` tells those who stand by which service they stand by for.
    """

    name: str
    make: Callable[[Tell], StreamJob]
    documents: Documents
    noted: Noted
    patience: float
    instance: str
    beside: Beside = lambda _stop: nullcontext()

    def run(self, stop: threading.Event, say: Say) -> None:
        """Take in what comes until told to stop; while another one does it, wait for that one to end."""
        while not stop.is_set():
            try:
                what = f"a stream of the service {self.instance}"
                with work_under(self.documents, self.name, seconds=LEASE_SECONDS, what=what) as lease:
                    self._run(lease, stop, say)
            except LeaseTaken as error:
                say({"standby": error.message})
                stop.wait(STANDBY_SECONDS)

    def _run(self, lease: Lease, stop: threading.Event, say: Say) -> None:
        """One holding of the lease. Who has lost it ends the stream; two at once would cost time, and no row."""
        ended = threading.Event()
        well: dict[str, object] = {"since": f"{lease.holder.since:%Y-%m-%d %H:%M:%S}"}
        say(well)

        def took(batch: BatchResult) -> None:
            nonlocal well
            well = details_of(batch)
            self._batch(batch, lease, ended, say)

        job = self.make(took)
        threading.Thread(target=_follow, args=(stop, ended), daemon=True).start()
        try:
            with in_pool(job.lake, "ingest"), self.beside(ended):
                keep_running(job, ended, lambda error: say({"error": str(error)} if error else well))
        finally:
            ended.set()
        if stop.is_set():
            self._finish(lease, say)

    def _finish(self, lease: Lease, say: Say) -> None:
        """Take in what was acknowledged before the end, as far as there is time for it."""
        job = self.make(lambda batch: self._batch(batch, lease, threading.Event(), say))
        timer = threading.Timer(self.patience, job.stop)
        timer.start()
        try:
            job.run(until_caught_up=True)
        finally:
            timer.cancel()

    def _batch(self, batch: BatchResult, lease: Lease, ended: threading.Event, say: Say) -> None:
        log_batch(batch)
        say(details_of(batch))
        self.noted.note(TABLES[signal] for signal in batch.records if signal in TABLES)
        try:
            lease.check()
        except LeaseLost:
            ended.set()


def _follow(first: threading.Event, second: threading.Event) -> None:
    """Set the second when the first is; ends when either is."""
    while not first.wait(FOLLOW_SECONDS):
        if second.is_set():
            return
    second.set()


def details_of(batch: BatchResult) -> dict[str, object]:
    """What a person wants to see of the last batch."""
    return {
        "batch": batch.batch_id,
        "records": dict(batch.records),
        "seconds": round(batch.seconds, 3),
        "lag_seconds": None if batch.lag_seconds is None else round(batch.lag_seconds, 3),
    }
