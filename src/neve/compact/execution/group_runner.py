"""Run the groups of a plan: rewrite several at a time, verify them, record them in the journal and publish them.

Small groups share a Spark job, because starting a job costs as much as a small group. A commit conflict discards its
group and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

from neve.compact.execution.arrow_rewriter import ArrowTask, UnsuitedGroup, rewrite_group
from neve.compact.journal import Entry, Journal, Stage
from neve.compact.plan import Executor
from neve.errors import CommitConflict, CommitUnknown, LakeError, NeveError
from neve.lake.commit.java_commit import Replacement, TableBusy, replace_files
from neve.lake.spark.tasks import find_parallelism, run_tasks
from neve.lake.write.data_file_json import make_minimal_json
from neve.lake.write.table_writer import Target
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table

    from neve.compact.execution.rewritten_group import RewrittenGroup
    from neve.compact.plan import Group, Plan
    from neve.lake.lake import Lake
    from neve.lake.write.data_file_json import DataFileJson


BUNDLE_BYTES = 128 * 1024 * 1024  # maximum work that a kill loses, except for larger groups
BUNDLE_GROUPS = 64


def bundle_groups(groups: Sequence[Group]) -> list[tuple[Group, ...]]:
    """Bundle small neighbours of the plan. A group that needs Spark's own engine stays alone."""
    found: list[list[Group]] = []
    for group in groups:
        if found and _fits(found[-1], group):
            found[-1].append(group)
        else:
            found.append([group])
    return [tuple(bundle) for bundle in found]


def _fits(bundle: list[Group], group: Group) -> bool:
    alike = group.executor is bundle[0].executor is Executor.ARROW
    return alike and len(bundle) < BUNDLE_GROUPS and sum(one.bytes for one in bundle) + group.bytes <= BUNDLE_BYTES


OPERATION = "compact"
SUMMARY_RUN = "neve.run"
SUMMARY_GROUPS = "neve.groups"


@dataclass(frozen=True)
class Publisher:
    """Commits the groups of one run, which is based on one snapshot."""

    lake: Lake
    table: str
    journal: Journal
    run_id: str
    snapshot_id: int
    sequence: int
    check_lease: Callable[[], None]
    _numbers: Iterator[int] = field(default_factory=count)

    def publish(self, entries: Sequence[Entry]) -> list[Entry]:
        """Commit all groups at once or, if that is rejected, each alone. Return their new state."""
        done: list[Entry] = []
        for pinned in (True, False):
            alike = [entry for entry in entries if _is_pinned(entry) is pinned]
            if alike:
                done += self._together(alike, self.sequence if pinned else None)
        return done

    def _together(self, entries: Sequence[Entry], sequence: int | None) -> list[Entry]:
        try:
            return self._commit(entries, sequence)
        except TableBusy as busy:
            return [self._record(replace(entry, stage=Stage.WRITTEN, error=busy.message)) for entry in entries]
        except CommitConflict as conflict:
            if len(entries) == 1:
                return [self._record(replace(entries[0], stage=Stage.CONFLICT, error=conflict.message))]
        return [one for entry in entries for one in self._together([entry], sequence)]

    def _commit(self, entries: Sequence[Entry], sequence: int | None) -> list[Entry]:
        self.check_lease()
        # A process that publishes the groups of a dead one must not mistake a batch number of the dead one for its own.
        batch_id = f"{OPERATION}:{self.run_id}:{next(self._numbers)}:{uuid4().hex[:8]}"
        publishing = [self._record(replace(entry, stage=Stage.PUBLISHING, batch_id=batch_id)) for entry in entries]
        summary = {SUMMARY_RUN: self.run_id, SUMMARY_GROUPS: str(len(entries))}
        try:
            commit = replace_files(
                self.lake,
                self.table,
                self._replacement(entries, sequence),
                batch_id=batch_id,
                operation=OPERATION,
                summary=summary,
            )
        except CommitUnknown as unknown:
            return [self._record(replace(entry, stage=Stage.UNKNOWN, error=unknown.message)) for entry in publishing]
        except CommitConflict:
            raise
        except LakeError as error:
            return [self._record(replace(entry, stage=Stage.FAILED, error=error.message)) for entry in publishing]
        return [
            self._record(replace(entry, stage=Stage.COMMITTED, snapshot_id=commit.snapshot_id)) for entry in publishing
        ]

    def _replacement(self, entries: Sequence[Entry], sequence: int | None) -> Replacement:
        rewritten = [entry.rewritten for entry in entries if entry.rewritten]
        return Replacement(
            removed=tuple(file for entry in entries for file in _input_contents(entry.group)),
            added=tuple(file for one in rewritten for file in one.added),
            from_snapshot=self.snapshot_id,
            data_sequence=sequence,
            removed_deletes=_deduplicate_contents(file for one in rewritten for file in one.removed_deletes),
        )

    def _record(self, entry: Entry) -> Entry:
        self.journal.note(self.run_id, entry)
        return entry


def _is_pinned(entry: Entry) -> bool:
    """Return whether new files keep their sequence number.

    They do, so that equality deletes that arrive during the rewrite still apply. If only position deletes were applied
    they do not: otherwise their delete files would seem to apply forever to the new files.
    """
    deletes_applied = bool(entry.rewritten and entry.rewritten.removed_deletes) or entry.group.has_deletes
    return not deletes_applied or bool(entry.rewritten and entry.rewritten.has_equality_deletes)


def _input_contents(group: Group) -> list[DataFileJson]:
    partition = group.partition
    return [
        make_minimal_json(file.path, file.format, partition.spec_id, partition.values, file.bytes, file.rows)
        for file in group.files
    ]


def _deduplicate_contents(files: Iterator[DataFileJson]) -> tuple[DataFileJson, ...]:
    """Return each delete file once: two groups of a partition may both no longer need it."""
    return tuple({f"{file['file-path']}#{file.get('content-offset')}": file for file in files}.values())


SLICES_A_CORE = 2
Progress = Callable[[int, int], None]
log = get_logger(__name__)


@dataclass(frozen=True)
class GroupRunner:
    """Runs the plan of one run."""

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
    cores: int = 0  # that may be busy at the same time; 0: all

    def run(self, progress: Progress | None = None) -> list[Entry]:
        """Rewrite and publish every group. The entry of a group has its error, and the others continue."""
        done: list[Entry] = []
        ready: list[Entry] = []
        for entries in self._rewrite_bundles():
            ready += [entry for entry in entries if entry.stage is Stage.WRITTEN]
            done += [entry for entry in entries if entry.stage is not Stage.WRITTEN]
            if len(ready) >= self.groups_per_commit:
                done += self.publisher.publish(ready)
                ready = []
            if progress is not None:
                progress(len(done) + len(ready), len(self.plan.groups))
        return done + (self.publisher.publish(ready) if ready else [])

    def _rewrite_bundles(self) -> Iterator[list[Entry]]:
        """Yield the bundles as they finish. The number of concurrent bundles is limited."""
        waiting = iter(bundle_groups(self.plan.groups))
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
            return [self._record(group, outcome) for group, outcome in zip(bundle, outcomes, strict=True)]
        except Exception as error:  # after any error of a group, the table is unchanged and the others can continue
            if len(bundle) > 1:
                return [entry for group in bundle for entry in self._bundle([group])]
            return [self._record_failure(bundle[0], error)]

    def _by_arrow(self, bundle: Sequence[Group]) -> list[RewrittenGroup]:
        target = Target.of(self.table)
        tasks = [
            ArrowTask(target, group, self.folder, self.plan.target_bytes, self.hashed, self.sort_memory)
            for group in bundle
        ]
        outcomes = run_tasks(self.lake.spark, rewrite_group, tasks, slices=self._slices)
        return [
            self._fall_back(group, outcome) if isinstance(outcome, UnsuitedGroup) else outcome
            for group, outcome in zip(bundle, outcomes, strict=True)
        ]

    @property
    def _slices(self) -> int:
        """Return the number of Spark tasks of a bundle. Few tasks leave cores to other jobs."""
        if self.cores:
            return max(1, self.cores // self.concurrency)
        return SLICES_A_CORE * find_parallelism(self.lake.spark)

    def _fall_back(self, group: Group, unsuited: UnsuitedGroup) -> RewrittenGroup:
        log.info("group falls back to spark", group=group.id, reason=unsuited.reason)
        return self._by_spark(group)

    def _by_spark(self, group: Group) -> RewrittenGroup:
        from neve.compact.execution.spark_rewriter import SparkRewriter  # noqa: PLC0415 - not for those who only plan

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

    def _record(self, group: Group, outcome: RewrittenGroup) -> Entry:
        entry = Entry(group, Stage.WRITTEN, outcome.verify(group))
        self.journal.note(self.plan.id, entry)
        return entry

    def _record_failure(self, group: Group, error: Exception) -> Entry:
        message = error.message if isinstance(error, NeveError) else f"{type(error).__name__}: {error}"
        entry = Entry(group, Stage.FAILED, error=message.splitlines()[0][:500])
        log.warning("group failed", group=group.id, error=entry.error)
        self.journal.note(self.plan.id, entry)
        return entry
