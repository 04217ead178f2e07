"""Sampling job of a folder: every window whose files changed is sampled again as a whole, staged and published.

Files are put in place children before parents, so that no reader sees a row without its children.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from neve.errors import ConfigError, InputError
from neve.lake.calendar import now_utc
from neve.lake.spark.tasks import find_parallelism
from neve.lake.storage.filesystem import resolve_filesystem
from neve.otap.ids import EXPORTER, SPECIFICATION
from neve.otap.part_reader import PartFiles
from neve.otap.writer import OBJECT_STORES
from neve.reservoir import metrics
from neve.reservoir.otap.decide import UNFIT, open_decisions
from neve.reservoir.otap.ledger import Ledger, SampledWindow
from neve.reservoir.otap.rebuild import Decisions, Numbering, Piece, Rebuild
from neve.reservoir.otap.root_files import run_reporting_tasks, scheme_of
from neve.reservoir.otap.source import Plan, PlannedWindow, PlanScope, Source, plan_source
from neve.reservoir.otap.views import open_session, open_views, spark_path
from neve.reservoir.results import RunResult, WindowResult
from neve.reservoir.weights import WEIGHTS, count_invalid_weights, to_invalid_weight, weights_view
from neve.reservoir.windows import nanos_of
from neve.state.leases import hold_worker_lease

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from neve.lake.config import S3Config
    from neve.lake.lake import Lake
    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.otap.rebuild import Rebuilt
    from neve.reservoir.otap.views import Parts
    from neve.reservoir.windows import Window
    from neve.state.documents import Documents
    from neve.state.leases import Lease


@dataclass(frozen=True)
class Publisher:
    """Publisher of files: moves them from the staging folder of a window to the tables."""

    ledger: Ledger

    def staging(self, window: Window) -> str:
        """Return the folder that tasks write to, which is hidden from readers of the tables."""
        return f"{self.ledger.base}/_neve/staging/{self.ledger.signal}-{window}"

    def publish(self, window: Window, sampled: SampledWindow, before: SampledWindow | None) -> None:
        """Replace a window's files.

        The window's document records the operation before the first file moves, and names the files to remove too. A
        run that dies here is repeated, writes the same files and removes the same.
        """
        old = tuple(path for path in (before.outputs if before else ()) if path not in sampled.outputs)
        self.ledger.write(window, replace(sampled, outputs=sampled.outputs + old))
        children, roots = self._split_roots(sampled.outputs)
        self._move(window, children)
        self._remove(self._split_roots(old)[1])
        self._move(window, roots)
        self._remove(self._split_roots(old)[0])
        self.ledger.write(window, sampled.mark_done())
        self.clear(window)

    def clear(self, window: Window) -> None:
        """Remove the files that a run left in the staging folder."""
        folder = self.staging(window)
        if self._filesystem.get_file_info(folder).type == pafs.FileType.Directory:
            self._filesystem.delete_dir(folder)

    @property
    def _filesystem(self) -> pafs.FileSystem:
        return self.ledger.filesystem

    def _split_roots(self, paths: Sequence[str]) -> tuple[list[str], list[str]]:
        root = f"/{self.ledger.signal}/"
        return [path for path in paths if not path.startswith(root)], [path for path in paths if path.startswith(root)]

    def _move(self, window: Window, paths: Iterable[str]) -> None:
        whole = self._filesystem.type_name in OBJECT_STORES
        for path in paths:
            target = self.ledger.base + path
            if not whole:
                self._filesystem.create_dir(target.rpartition("/")[0], recursive=True)
            self._filesystem.move(self.staging(window) + path, target)

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            if self._filesystem.get_file_info(self.ledger.base + path).type == pafs.FileType.File:
                self._filesystem.delete_file(self.ledger.base + path)


@dataclass(frozen=True)
class WindowOutcome:
    """Result of a window before it is published."""

    sampled: SampledWindow
    result: WindowResult


@dataclass(frozen=True)
class WindowSampling:
    """Sampling of one window.

    `staging` is the folder that its files are written to first.
    """

    lake: Lake
    config: ReservoirConfig
    planned: PlannedWindow
    parts: Parts
    staging: str

    def run(self, progress: Callable[[str, int, int], None]) -> WindowOutcome:
        """Decide once, and rebuild all tables from the decisions."""
        decisions, ones = ("", 0) if self.config.passes else self._write_decisions()
        rebuilt = self._rebuild(decisions, partial(progress, f"records of {self.planned.window}"))
        kept = sum(one.kept for one in rebuilt)
        self._check_kept(decisions, kept)
        sampled = SampledWindow(
            start_ns=self.planned.window.start_ns,
            seconds=self.planned.window.seconds,
            policy=self.config.policy,
            how=self.config.how,
            by=self.config.grouping,
            files=tuple(file.identity for file in self.planned.files),
            outputs=tuple(path for one in rebuilt for _table, path in one.files),
            generation=self.planned.generation,
            records=self.planned.records,
            kept=kept,
        )
        return WindowOutcome(sampled, self._result(rebuilt, ones))

    def _write_decisions(self) -> tuple[str, int]:
        """Write the decisions, and return their location and the number of records with an invalid weight.

        Such records count as 1.
        """
        config, session = self.config, open_session(self.lake.spark)
        open_views(session, config.signal, self.planned, self.parts, self.lake.s3)
        weights_view(session, config).createOrReplaceTempView(WEIGHTS)
        path = f"{self.staging}/decided"
        with open_decisions(session, config, self.planned.window, self.parts) as rows:
            try:
                rows.coalesce(find_parallelism(self.lake.spark)).write.mode("overwrite").parquet(spark_path(path))
            except Exception as error:
                raise to_invalid_weight(error) or _explain_failure(error, config) from error
        return path, count_invalid_weights(session, config)

    def _rebuild(self, decisions: str, progress: Callable[[int, int], None]) -> list[Rebuilt]:
        config, planned = self.config, self.planned
        work = Rebuild(
            signal=config.signal,
            window=planned.window,
            generation=planned.generation,
            staging=self.staging,
            decisions=decisions,
            method="priority" if config.query else config.method,
            numbering=Numbering(config.ids, config.adjusted_count),
            weights=config.weights,
            invalid_weights=config.invalid_weights,
            rows_per_file=config.rows_per_file,
            s3=self.lake.s3,
        )
        pieces = [
            Piece(file, ordinal, PartFiles(self.parts.files[file.part], self.parts.offsets[file.part]))
            for ordinal, file in enumerate(planned.files)
        ]
        return run_reporting_tasks(self.lake.spark, work, pieces, progress)

    def _check_kept(self, decisions: str, kept: int) -> None:
        """Check that every decision is about exactly one record of the window, and no two are about the same record."""
        expected = Decisions(decisions, self.lake.s3).count() if decisions else self.planned.records
        if kept == expected:
            return
        counts = f"{expected:,} decisions about {kept:,} records of {self.planned.window}"
        if self.config.query:
            raise ConfigError(
                f"reservoir.query returns {counts}: it names a record twice, or one that is not in the window",
                hint="_part_id and id identify a record; nothing of the window was published",
            )
        raise InputError(f"{counts}: files changed meanwhile", hint="run it again; nothing of the window was published")

    def _result(self, rebuilt: list[Rebuilt], ones: int) -> WindowResult:
        window = self.planned.window
        repaired = any(offsets is not None for offsets in self.parts.offsets.values())
        return WindowResult(
            window=str(window),
            start=window.start.isoformat(),
            end=window.end.isoformat(),
            reason=self.planned.reason,
            records=sum(one.records for one in rebuilt),
            kept=sum(one.kept for one in rebuilt),
            files=sum(len(one.files) for one in rebuilt),
            bytes=sum(one.bytes for one in rebuilt),
            convention=EXPORTER if repaired else SPECIFICATION,
            counted_as_one=ones + sum(one.counted_as_one for one in rebuilt),
            guessed=sum(one.guessed for one in rebuilt),
        )


def _explain_failure(error: Exception, config: ReservoirConfig) -> Exception:
    """Convert Spark's error about a user's own query to a configuration error."""
    if not config.query or type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
        return error
    text = str(error)
    reason = text[text.index(UNFIT) :] if UNFIT in text else text
    words = (reason.splitlines() or [""])[0].split(" SQLSTATE")[0].removeprefix("neve: ")
    return ConfigError(f"reservoir.query failed: {words}", hint="nothing of the window was published")


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class RunScope:
    """Windows of a run, and whether windows are sampled again although nothing changed."""

    since: datetime | None = None
    until: datetime | None = None
    again: bool = False


EVERYTHING = RunScope()


@dataclass(frozen=True)
class FolderSampler:
    """Sampler of one folder into another.

    Among all processes that share the state store, one run of a target is active at a time.
    """

    lake: Lake
    config: ReservoirConfig
    documents: Documents
    clock: Callable[[], datetime] = now_utc
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)

    def run(self, span: RunScope = EVERYTHING) -> RunResult:
        """Sample every window whose source files changed since it was sampled."""
        self._check()
        config = self.config
        name = f"reservoir:{config.signal}:{config.target.rstrip('/')}"
        with hold_worker_lease(
            self.documents, name, seconds=config.lease_seconds, what="reservoir", steal=self.steal
        ) as lease:
            try:
                return self._run(span, lease)
            except Exception:
                metrics.FAILURES.labels(config.signal).inc()
                raise

    def plan(self, span: RunScope = EVERYTHING) -> Plan:
        """Return the plan of a run.

        Files are scanned, and nothing is written.
        """
        self._check()
        return self._plan(self._source(), span)

    def _run(self, span: RunScope, lease: Lease) -> RunResult:
        began = time.monotonic()
        source = self._source()
        plan = self._plan(source, span, remember=True)
        results = []
        for number, planned in enumerate(plan.to_sample):
            self.progress("windows", number, len(plan.to_sample))
            lease.check()
            results.append(self._window(planned, source, lease))
        self.progress("windows", len(plan.to_sample), len(plan.to_sample))
        return RunResult(
            signal=self.config.signal,
            source=self.config.source,
            target=self.config.target,
            policy=self.config.policy,
            windows=tuple(results),
            current=plan.current,
            waiting=plan.waiting,
            other_policy=plan.other_policy,
            gone=plan.gone,
            ignored=source.listing.ignored,
            seconds=time.monotonic() - began,
        )

    def _check(self) -> None:
        for key in ("source", "target"):
            if not getattr(self.config, key):
                raise ConfigError(f"reservoir.{key} is empty", hint="name a folder: `neve reservoir run SOURCE TARGET`")
        source, target = (_locate_folder(folder, self.lake.s3) for folder in (self.config.source, self.config.target))
        if source == target:
            raise ConfigError(
                f"reservoir.target is the source, {self.config.source}",
                hint="name another folder for the sample",
            )

    def _source(self) -> Source:
        return Source.of(self.lake, self.config.source, self.config.signal)

    @property
    def _ledger(self) -> Ledger:
        return Ledger.of(self.config.target, self.config.signal, self.lake.s3)

    def _plan(self, source: Source, span: RunScope, *, remember: bool = False) -> Plan:
        ledger = self._ledger
        seconds = self.config.window_seconds
        files = source.scan_root_files(seconds, ledger.known_files(seconds), self.progress)
        if remember:
            ledger.remember_files(files, seconds)
        scope = PlanScope(
            seconds=seconds,
            now_ns=nanos_of(self.clock()),
            settle_seconds=self.config.settle_seconds,
            since=span.since,
            until=span.until,
            again=span.again,
        )
        return plan_source(self.config, files, ledger, scope)

    def _window(self, planned: PlannedWindow, source: Source, lease: Lease) -> WindowResult:
        began = time.monotonic()
        publisher = Publisher(self._ledger)
        publisher.clear(planned.window)
        staging = scheme_of(self.config.target) + publisher.staging(planned.window)
        made = WindowSampling(self.lake, self.config, planned, source.parts_of(planned), staging).run(self.progress)
        lease.check()
        publisher.publish(planned.window, made.sampled, planned.replaces)
        result = replace(made.result, seconds=time.monotonic() - began)
        metrics.count_window(self.config.signal, result)
        return result


def _locate_folder(folder: str, s3: S3Config) -> tuple[str, str]:
    """Return the location of a folder, in whichever form it is given."""
    filesystem, path = resolve_filesystem(folder, s3)
    return filesystem.type_name, path.rstrip("/")
