"""The groups of a plan, rewritten some at a time, proven, noted and published."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from neve.compact.arrow import ArrowTask, Unsuited, rewrite
from neve.compact.bundle import bundles
from neve.compact.journal import Entry, Journal, Stage
from neve.compact.plan import Executor
from neve.compact.spark import SparkRewriter
from neve.errors import NeveError
from neve.lake.lane import parallelism, run_tasks
from neve.lake.writer import Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table

    from neve.compact.plan import Group, Plan
    from neve.compact.publish import Publisher
    from neve.compact.rewritten import Rewritten
    from neve.lake.lake import Lake

SLICES_A_CORE = 2
Progress = Callable[[int, int], None]
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Execution:
    """One run's way through its plan."""

    lake: Lake
    table: Table
    plan: Plan
    folder: str
    journal: Journal
    publisher: Publisher
    hashed: tuple[str, ...]
    sort_memory: int
    concurrency: int
    groups_per_commit: int
    deadline: float | None = None
    cores: int = 0  # that may be busy at a time; 0: all

    def run(self, progress: Progress | None = None) -> list[Entry]:
        """Rewrite and publish every group; what a group fails at is in its entry, and the others go on."""
        done: list[Entry] = []
        ready: list[Entry] = []
        for entries in self._rewritten():
            ready += [entry for entry in entries if entry.stage is Stage.WRITTEN]
            done += [entry for entry in entries if entry.stage is not Stage.WRITTEN]
            if len(ready) >= self.groups_per_commit:
                done += self.publisher.publish(ready)
                ready = []
            if progress is not None:
                progress(len(done) + len(ready), len(self.plan.groups))
        return done + (self.publisher.publish(ready) if ready else [])

    def _rewritten(self) -> Iterator[list[Entry]]:
        """The bundles as they are finished; no more of them are under way than were asked for."""
        waiting = iter(bundles(self.plan.groups))
        running: set[Future[list[Entry]]] = set()
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="compact") as pool:
            while True:
                while len(running) < self.concurrency and (bundle := self._next(waiting)):
                    running.add(pool.submit(self._bundle, bundle))
                if not running:
                    return
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for one in finished:
                    yield one.result()

    def _next(self, waiting: Iterator[tuple[Group, ...]]) -> tuple[Group, ...] | None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            return None
        return next(waiting, None)

    def _bundle(self, bundle: Sequence[Group]) -> list[Entry]:
        try:
            outcomes = self._by_arrow(bundle) if bundle[0].executor is Executor.ARROW else [self._by_spark(bundle[0])]
            return [self._noted(group, outcome) for group, outcome in zip(bundle, outcomes, strict=True)]
        except Exception as error:  # whatever a group fails at, the table is as it was and the others can go on
            if len(bundle) > 1:
                return [entry for group in bundle for entry in self._bundle([group])]
            return [self._failed(bundle[0], error)]

    def _by_arrow(self, bundle: Sequence[Group]) -> list[Rewritten]:
        target = Target.of(self.table)
        tasks = [
            ArrowTask(target, group, self.folder, self.plan.target_bytes, self.hashed, self.sort_memory)
            for group in bundle
        ]
        outcomes = run_tasks(self.lake.spark, rewrite, tasks, slices=self._slices)
        return [
            self._fallen_back(group, outcome) if isinstance(outcome, Unsuited) else outcome
            for group, outcome in zip(bundle, outcomes, strict=True)
        ]

    @property
    def _slices(self) -> int:
        """How many Spark tasks a bundle is; with few enough of them, cores are left to others."""
        if self.cores:
            return max(1, self.cores // self.concurrency)
        return SLICES_A_CORE * parallelism(self.lake.spark)

    def _fallen_back(self, group: Group, unsuited: Unsuited) -> Rewritten:
        log.info("group goes to spark", group=group.id, reason=unsuited.reason)
        return self._by_spark(group)

    def _by_spark(self, group: Group) -> Rewritten:
        rewriter = SparkRewriter(
            self.lake.spark,
            self.lake.spark_name(self.plan.table),
            self.table,
            self.plan.start,
            self.folder,
            self.plan.target_bytes,
            self.hashed,
        )
        return rewriter.rewrite(group)

    def _noted(self, group: Group, outcome: Rewritten) -> Entry:
        entry = Entry(group, Stage.WRITTEN, outcome.checked(group))
        self.journal.note(self.plan.id, entry)
        return entry

    def _failed(self, group: Group, error: Exception) -> Entry:
        words = error.message if isinstance(error, NeveError) else f"{type(error).__name__}: {error}"
        entry = Entry(group, Stage.FAILED, error=words.splitlines()[0][:500])
        log.warning("group failed", group=group.id, error=entry.error)
        self.journal.note(self.plan.id, entry)
        return entry
