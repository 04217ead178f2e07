"""The ingestion stream part: one instance runs the stream under a lease; the others are on standby."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.app.serve.streams import keep_running, log_batch
from neve.errors import LeaseLost, LeaseTaken
from neve.lake.spark.session import has_spark_started, use_pool
from neve.model.signals import Signal
from neve.state.leases import hold_worker_lease

if TYPE_CHECKING:
    from neve.app.serve.part import ReportDetails
    from neve.app.serve.parts.announcer import ChangedTables
    from neve.ingest.results import BatchResult
    from neve.ingest.stream.job import BatchCallback, StreamJob
    from neve.state.documents import Documents
    from neve.state.leases import Lease

LEASE_SECONDS = 15.0
STANDBY_SECONDS, FOLLOW_SECONDS = 2.0, 0.5
Beside = Callable[[threading.Event], AbstractContextManager[None]]
TABLES = {Signal.LOGS.value: "logs", Signal.METRICS.value: "metrics", Signal.TRACES.value: "spans"}


@dataclass(frozen=True)
class StreamPart:
    """Part that runs one stream under a lease, and notes its commits for the announcer.

    Work that runs `beside` the stream ends with it. `instance` names the active service to the instances on standby.
    """

    name: str
    make: Callable[[BatchCallback], StreamJob]
    documents: Documents
    changed_tables: ChangedTables
    patience: float
    instance: str
    beside: Beside = lambda _stop: nullcontext()

    def run(self, stop: threading.Event, report: ReportDetails) -> None:
        """Ingest until asked to stop; while another instance does, be on standby."""
        while not stop.is_set():
            try:
                what = f"a stream of the service {self.instance}"
                with hold_worker_lease(self.documents, self.name, seconds=LEASE_SECONDS, what=what) as lease:
                    self._run(lease, stop, report)
            except LeaseTaken as error:
                report({"standby": error.message})
                stop.wait(STANDBY_SECONDS)

    def _run(self, lease: Lease, stop: threading.Event, report: ReportDetails) -> None:
        """Run the stream while the lease is held.

        The stream ends when the lease is lost. Two streams at once would cost time, but no rows.
        """
        ended = threading.Event()
        well: dict[str, object] = {"since": f"{lease.holder.since:%Y-%m-%d %H:%M:%S}"}
        report(well)

        def took(batch: BatchResult) -> None:
            nonlocal well
            well = batch_details(batch)
            self._batch(batch, lease, ended, report)

        job = self.make(took)
        threading.Thread(target=_forward_stop, args=(stop, ended), daemon=True).start()
        try:
            with use_pool("ingest"), self.beside(ended):
                keep_running(job, ended, lambda error: report({"error": str(error)} if error else well))
        finally:
            ended.set()
        if stop.is_set():
            self._finish(lease, report)

    def _finish(self, lease: Lease, report: ReportDetails) -> None:
        """Ingest the data that was acknowledged before the end, as far as time permits.

        Spark is not started for it: the data is durable, and the next start ingests it.
        """
        if not has_spark_started():
            return
        job = self.make(lambda batch: self._batch(batch, lease, threading.Event(), report))
        timer = threading.Timer(self.patience, job.stop)
        timer.start()
        try:
            job.run(until_caught_up=True)
        finally:
            timer.cancel()

    def _batch(self, batch: BatchResult, lease: Lease, ended: threading.Event, report: ReportDetails) -> None:
        log_batch(batch)
        report(batch_details(batch))
        self.changed_tables.note(TABLES[signal] for signal in batch.records if signal in TABLES)
        try:
            lease.check()
        except LeaseLost:
            ended.set()


def _forward_stop(first: threading.Event, second: threading.Event) -> None:
    """Set the second event when the first one is set; ends when either is."""
    while not first.wait(FOLLOW_SECONDS):
        if second.is_set():
            return
    second.set()


def batch_details(batch: BatchResult) -> dict[str, object]:
    """Return the details of the last batch for the status."""
    return {
        "batch": batch.batch_id,
        "records": dict(batch.records),
        "seconds": round(batch.seconds, 3),
        "lag_seconds": None if batch.lag_seconds is None else round(batch.lag_seconds, 3),
    }
