"""How each kind of work is done: a job in, what was done and why out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.app.serve.forgetting import forget
from neve.app.telemetry.traces import span
from neve.app.wiring import build_compactor
from neve.compact.words import number
from neve.errors import Cancelled, LakeError
from neve.work.handler import Outcome
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.app.settings import Settings
    from neve.compact.result import CompactResult
    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.maintain.result import StepResult
    from neve.work.handler import Handler, Report
    from neve.work.job import Job


@dataclass(frozen=True)
class Handlers:
    """The work of one lake."""

    settings: Settings
    lake: Lake
    documents: Documents

    def of(self, task: Task) -> Handler:
        """Who does a kind of work; each job is a span of Neve's own telemetry."""
        work = {
            Task.COMPACT: self.compact,
            Task.MAINTAIN: self.maintain,
            Task.ROLLUP: self.rollup,
            Task.SEARCH: self.search,
            Task.AUTOPILOT: self.autopilot,
        }[task]

        def traced(job: Job, report: Report) -> Outcome:
            with span("job", task=job.task.value, table=job.table, window=job.window, job=job.id):
                return work(job, report)

        return traced

    def compact(self, job: Job, report: Report) -> Outcome:
        """Rewrite what a table, or a day of it, needs rewritten."""
        from neve.compact.compactor import Request  # noqa: PLC0415 - Spark's worth of imports

        told = steps(report)
        compactor = build_compactor(self.settings, self.lake)
        try:
            result = compactor.compact(
                job.table,
                Request(partitions=job.window or None),
                progress=lambda done, total: told("groups", done, total),
            )
        finally:
            compactor.documents.close()
        if result.failed:
            raise LakeError("; ".join(result.errors) or f"{result.failed} groups of {job.table} failed")
        return Outcome(compact_words(result) + self._forget(job.table), summary(result.as_document()))

    def _forget(self, table: str) -> str:
        """Who rewrites files often also lets go of the snapshots that still hold the former ones."""
        from neve.app.maintain import build_maintainer  # noqa: PLC0415 - as above

        return forget(build_maintainer(self.settings, self.lake, self.documents, lambda *_: None), table)

    def maintain(self, job: Job, report: Report) -> Outcome:
        """Every step of a round of maintenance."""
        from neve.app.maintain import build_maintainer  # noqa: PLC0415 - as above

        maintainer = build_maintainer(self.settings, self.lake, self.documents, steps(report))
        results = maintainer.round(job.table)
        failed = [f"{one.step}: {one.error}" for one in results if one.error]
        if failed:
            raise LakeError(f"maintenance of {job.table}: {'; '.join(failed)}")
        return Outcome(maintain_words(results), {one.step: one.outcome.reason for one in results})

    def rollup(self, job: Job, report: Report) -> Outcome:
        """Bring one level up to date."""
        from neve.app.rollup import build_rollup  # noqa: PLC0415 - as above
        from neve.model.rollups import LEVELS  # noqa: PLC0415

        level = next((one for one in LEVELS if one.table == job.table), None)
        if level is None:
            raise LakeError(f"{job.table} is no level of rollups, expected {', '.join(one.table for one in LEVELS)}")
        rollup = build_rollup(self.settings, self.lake, steps(report))
        try:
            result = rollup.run_level(level)
        finally:
            rollup.documents.close()
        words = (
            f"{number(result.rows, 'row')} in {number(result.windows, 'window')}: {result.reason}"
            if result.committed
            else result.reason
        )
        return Outcome(words, result.as_document())

    def search(self, job: Job, report: Report) -> Outcome:
        """Index the words of files that are not indexed yet."""
        from neve.app.search import build_search  # noqa: PLC0415 - as above

        search = build_search(self.settings, self.lake, steps(report))
        try:
            result = search.build(job.table)
        finally:
            search.documents.close()
        words = (
            f"{number(result.files_indexed, 'file')} indexed: {result.reason}" if result.committed else result.reason
        )
        return Outcome(words, result.as_document())

    def autopilot(self, _job: Job, report: Report) -> Outcome:
        """A nightly run over all tables."""
        from neve.app.autopilot import build_nightly, open_pilot  # noqa: PLC0415 - as above

        with open_pilot(self.settings, self.lake, steps(report)) as pilot:
            found = build_nightly(pilot).run()
        words = "; ".join(f"{one.table}: {one.reason}" for one in found.tables) or "no table to look after"
        if found.failed:
            raise LakeError(f"autopilot: {words}")
        return Outcome(words, found.as_document())


def steps(report: Report) -> Callable[[str, int, int], None]:
    """Tell how far a job is; raises `Cancelled` when nobody wants it any more, which every room survives."""

    def tell(step: str, done: int, total: int) -> None:
        report.progress(step, done, total)
        if report.cancelled and done < total:
            raise Cancelled(f"it was told to stop at {done} of {total} of {step}")

    return tell


def compact_words(result: CompactResult) -> str:
    """What a compaction did."""
    if not result.planned:
        return result.reason
    return (
        f"{number(result.files_in, 'file')} became {result.files_out:,}, health {result.health_before:.0f} to "
        f"{result.health_after:.0f}: {result.reason}"
    )


def maintain_words(results: Sequence[StepResult]) -> str:
    """What a round did, without the steps that had nothing to do."""
    done = [f"{one.step}: {one.outcome.reason}" for one in results if one.outcome.changed]
    return "; ".join(done) or "nothing to do"


def summary(document: dict[str, object]) -> dict[str, object]:
    """A result without its lists, which the room's own history keeps."""
    return {key: value for key, value in document.items() if not isinstance(value, list | dict)}
