"""The worker part: runs jobs with a handler for each task, under short leases, and trims snapshots after compaction.

Commands wait for one another for the configured time. Here a job is claimed again 20 seconds after its worker's
last heartbeat, and the leases of the dead worker must have expired by then, or the job would wait once more.
Tables that are committed to every few seconds collect thousands of snapshots before the nightly maintenance.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from neve.app.telemetry.tracing import span
from neve.app.wiring import build_compactor
from neve.autopilot.config import AutopilotConfig, StageConfig
from neve.compact.config import CompactConfig
from neve.errors import Cancelled, LakeError, LeaseTaken
from neve.jobs.job import Task
from neve.jobs.worker import Outcome
from neve.lake.spark.session import use_pool
from neve.logger import get_logger
from neve.maintain.config import MaintainConfig
from neve.maintain.expire import STEP, is_gc_disabled
from neve.rollup.config import RollupConfig
from neve.search.config import SearchConfig
from neve.series.config import SeriesConfig
from neve.text import format_count
from neve.traces.config import TracesConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.table import Table

    from neve.app.serve.part import ReportDetails
    from neve.app.settings import Settings
    from neve.compact.result import CompactResult
    from neve.jobs.job import Job
    from neve.jobs.worker import Handler, JobReporter, Worker
    from neve.lake.lake import Lake
    from neve.maintain.config import ExpireConfig
    from neve.maintain.job import Maintainer
    from neve.maintain.step import StepResult
    from neve.state.documents import Documents


SLACK = 1.25  # to expire a few snapshots each time would cost more than to keep them


def is_trim_due(table: Table, config: ExpireConfig) -> bool:
    """Return whether a table has clearly more snapshots than it should."""
    most = config.max_snapshots
    return bool(most) and len(table.metadata.snapshots) > SLACK * most and not is_gc_disabled(table)


def trim_snapshots(maintainer: Maintainer, name: str) -> str:
    """Expire the excess snapshots of a table, and describe the result; empty if there are none.

    Work in progress on the table takes precedence: the next opportunity is soon.
    """
    if not is_trim_due(maintainer.lake.table(name), maintainer.config.expire):
        return ""
    try:
        result = maintainer.run(name, [STEP])[-1]
    except LeaseTaken:
        return ""
    return f"; {result.error or result.outcome.reason}"


LeasedConfig = TypeVar(
    "LeasedConfig",
    AutopilotConfig,
    StageConfig,
    CompactConfig,
    MaintainConfig,
    RollupConfig,
    SearchConfig,
    SeriesConfig,
    TracesConfig,
)

MAX_LEASE_SECONDS = 15.0  # a held lease is renewed three times in it


def with_short_leases(settings: Settings) -> Settings:
    """Return the settings with leases of a few seconds, if they had longer ones; only for workers that run jobs.

    Sections that the user did not set then look as if they were set, which matters to other callers.
    """
    stage = _shorten_lease(settings.autopilot.stage)
    return settings.model_copy(
        update={
            "compact": _shorten_lease(settings.compact),
            "maintain": _shorten_lease(settings.maintain),
            "rollup": _shorten_lease(settings.rollup),
            "search": _shorten_lease(settings.search),
            "series": _shorten_lease(settings.series),
            "traces": _shorten_lease(settings.traces),
            "autopilot": _shorten_lease(settings.autopilot).model_copy(update={"stage": stage}),
        }
    )


def _shorten_lease(section: LeasedConfig) -> LeasedConfig:
    return section.model_copy(update={"lease_seconds": min(MAX_LEASE_SECONDS, section.lease_seconds)})


@dataclass(frozen=True)
class JobHandlers:
    """The job handlers of one lake."""

    settings: Settings
    lake: Lake
    documents: Documents

    def of(self, task: Task) -> Handler:
        """Return the handler of a task; each job is a span of Neve's own telemetry."""
        work = {
            Task.COMPACT: self.compact,
            Task.MAINTAIN: self.maintain,
            Task.ROLLUP: self.rollup,
            Task.SEARCH: self.search,
            Task.SERIES: self.series,
            Task.TRACES: self.traces,
            Task.AUTOPILOT: self.autopilot,
            Task.SIMULATE: self.simulate,
            Task.LAYOUT: self.layout,
        }[task]

        def run_traced(job: Job, report: JobReporter) -> Outcome:
            with span("job", task=job.task.value, table=job.table, window=job.window, job=job.id):
                return work(job, report)

        return run_traced

    def compact(self, job: Job, report: JobReporter) -> Outcome:
        """Compact a table, or a day of it."""
        from neve.compact.plan import Request  # noqa: PLC0415 - Spark's worth of imports

        progress = build_progress(report)
        compactor = build_compactor(self.settings, self.lake)
        try:
            result = compactor.compact(
                job.table,
                Request(partitions=job.window or None),
                progress=lambda done, total: progress("groups", done, total),
            )
        finally:
            compactor.documents.close()
        if result.failed:
            raise LakeError("; ".join(result.errors) or f"{result.failed} groups of {job.table} failed")
        return Outcome(describe_compaction(result) + self._forget(job.table), drop_nested(result.as_document()))

    def _forget(self, table: str) -> str:
        """Expire the snapshots that still refer to the replaced files, because compaction runs often."""
        from neve.app.maintain import build_maintainer  # noqa: PLC0415 - as above

        return trim_snapshots(build_maintainer(self.settings, self.lake, self.documents, lambda *_: None), table)

    def maintain(self, job: Job, report: JobReporter) -> Outcome:
        """Run every step of a maintenance round."""
        from neve.app.maintain import build_maintainer  # noqa: PLC0415 - as above

        maintainer = build_maintainer(self.settings, self.lake, self.documents, build_progress(report))
        results = maintainer.round(job.table)
        failed = [f"{one.step}: {one.error}" for one in results if one.error]
        if failed:
            raise LakeError(f"maintenance of {job.table}: {'; '.join(failed)}")
        return Outcome(describe_maintenance(results), {one.step: one.outcome.reason for one in results})

    def rollup(self, job: Job, report: JobReporter) -> Outcome:
        """Bring one level of rollups up to date."""
        from neve.app.rollup import build_rollup  # noqa: PLC0415 - as above
        from neve.model.levels import LEVELS  # noqa: PLC0415

        level = next((one for one in LEVELS if one.table == job.table), None)
        if level is None:
            raise LakeError(f"{job.table} is not a rollup level, expected {', '.join(one.table for one in LEVELS)}")
        rollup = build_rollup(self.settings, self.lake, build_progress(report))
        try:
            result = rollup.run_level(level)
        finally:
            rollup.documents.close()
        words = (
            f"{format_count(result.rows, 'row')} in {format_count(result.windows, 'window')}: {result.reason}"
            if result.committed
            else result.reason
        )
        return Outcome(words, result.as_document())

    def search(self, job: Job, report: JobReporter) -> Outcome:
        """Index the words of files that are not indexed yet."""
        from neve.app.search import build_search  # noqa: PLC0415 - as above

        if job.table not in self.settings.search.tables:
            return Outcome(f"search.tables does not name {job.table}")
        search = build_search(self.settings, self.lake, build_progress(report))
        try:
            result = search.build(job.table)
        finally:
            search.documents.close()
        words = (
            f"{format_count(result.files_indexed, 'file')} indexed: {result.reason}"
            if result.committed
            else result.reason
        )
        return Outcome(words, result.as_document())

    def series(self, job: Job, report: JobReporter) -> Outcome:
        """Read the series of files that were not read yet, or count their lines."""
        from neve.app.derived_tables import build_series  # noqa: PLC0415 - as above

        series = build_series(self.settings, self.lake, build_progress(report))
        try:
            result = series.update(job.table)
        finally:
            series.documents.close()
        return Outcome(result.reason, result.as_document())

    def traces(self, job: Job, report: JobReporter) -> Outcome:
        """Summarize traces of files that were not read yet, or count their calls."""
        from neve.app.derived_tables import build_traces  # noqa: PLC0415 - as above

        traces = build_traces(self.settings, self.lake, build_progress(report))
        try:
            result = traces.update(job.table)
        finally:
            traces.documents.close()
        return Outcome(result.reason, result.as_document())

    def autopilot(self, _job: Job, report: JobReporter) -> Outcome:
        """Run the nightly run over all tables."""
        from neve.app.autopilot import build_nightly, open_pilot  # noqa: PLC0415 - as above

        with open_pilot(self.settings, self.lake, build_progress(report)) as pilot:
            found = build_nightly(pilot).run()
        words = "; ".join(f"{one.table}: {one.reason}" for one in found.tables) or "no table to optimize"
        if found.has_failed:
            raise LakeError(f"autopilot: {words}")
        return Outcome(words, found.as_document())

    def simulate(self, job: Job, report: JobReporter) -> Outcome:
        """Simulate sampling policies; the request of the job has the result."""
        from neve.app.operator.simulations import Simulations  # noqa: PLC0415 - as above
        from neve.jobs.queue import JobQueue  # noqa: PLC0415

        simulations = Simulations(self.settings, self.documents, JobQueue(self.documents))
        return Outcome(simulations.run(job.window, self.lake, build_progress(report)))

    def layout(self, job: Job, report: JobReporter) -> Outcome:
        """Merge or roll back an attempt of the autopilot."""
        from neve.app.operator.layouts import run_change  # noqa: PLC0415 - as above

        return Outcome(run_change(self.settings, self.lake, job, build_progress(report)))


def build_progress(report: JobReporter) -> Callable[[str, int, int], None]:
    """Return a function that reports the progress of a job.

    It raises `Cancelled` when the job was cancelled, which every package handles safely.
    """

    def tell(step: str, done: int, total: int) -> None:
        report.progress(step, done, total)
        if report.is_cancelled and done < total:
            raise Cancelled(f"cancelled at {done} of {total} of {step}")

    return tell


def describe_compaction(result: CompactResult) -> str:
    """Describe the result of a compaction."""
    if not result.planned:
        return result.reason
    return (
        f"{format_count(result.files_in, 'file')} became {result.files_out:,}, health {result.health_before:.0f} to "
        f"{result.health_after:.0f}: {result.reason}"
    )


def describe_maintenance(results: Sequence[StepResult]) -> str:
    """Describe the result of a maintenance round, without the steps that had nothing to do."""
    done = [f"{one.step}: {one.outcome.reason}" for one in results if one.outcome.changed]
    return "; ".join(done) or "nothing to do"


def drop_nested(document: dict[str, object]) -> dict[str, object]:
    """Return a result without its lists, which the package's own history stores."""
    return {key: value for key, value in document.items() if not isinstance(value, list | dict)}


LOOK_SECONDS = 0.5

log = get_logger("neve.jobs")


@dataclass(frozen=True)
class WorkerPart:
    """Part that runs a worker; its Spark jobs share a pool of their own, so that ingestion never waits for them."""

    name: str
    worker: Worker
    patience: float

    def run(self, stop: threading.Event, report: ReportDetails) -> None:
        """Run jobs until asked to stop; a job in progress is then released to another worker, unless it ends in time.

        A released job may go on for a while, in a thread that ends with the process.
        """
        report({"tasks": sorted(task.value for task in self.worker.handlers)})
        working: Future[None] = Future()
        threading.Thread(target=self._work, args=(stop, working), name=f"{self.name} at work", daemon=True).start()
        while not stop.wait(LOOK_SECONDS):
            if working.done():
                break
        try:
            working.result(self.patience)
        except TimeoutError:
            job = self.worker.release()
            log.warning(
                "job returned to the queue, it did not end in time", part=self.name, job=job.id if job else None
            )

    def _work(self, stop: threading.Event, working: Future[None]) -> None:
        try:
            with use_pool("tend"):
                self.worker.run(stop)
        except BaseException as error:
            working.set_exception(error)
        else:
            working.set_result(None)
