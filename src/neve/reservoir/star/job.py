"""The job: windows of a folder whose files changed are sampled anew, each as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from neve.errors import ConfigError, InputError, InvalidWeight
from neve.lake.lane import parallelism, run_tasks
from neve.lake.leases import work_under
from neve.otap.ids import EXPORTER, SPECIFICATION
from neve.otap.read import PartFiles
from neve.reservoir import metrics
from neve.reservoir.definition import REFUSED
from neve.reservoir.result import RunResult, WindowResult
from neve.reservoir.star.decide import decide
from neve.reservoir.star.files import scheme_of
from neve.reservoir.star.ledger import Ledger, Sampled
from neve.reservoir.star.numbering import Numbering
from neve.reservoir.star.plan import Plan, Turn, Wanted
from neve.reservoir.star.publish import Publisher
from neve.reservoir.star.rebuild import Piece, Rebuild
from neve.reservoir.star.source import Source, plan_source
from neve.reservoir.star.views import Parts, open_views, session_for, spark_path
from neve.reservoir.star.weights import WEIGHTS, weights_view
from neve.reservoir.window import NANOS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.lake.leases import Lease
    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.star.rebuild import Rebuilt

Progress = Callable[[str, int, int], None]


def now_utc() -> datetime:
    """The time."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Span:
    """Which windows a run is about, and whether those are sampled again that need it not."""

    since: datetime | None = None
    until: datetime | None = None
    again: bool = False


EVERYTHING = Span()


@dataclass(frozen=True)
class StarSampler:
    """Samples one folder into another; among all that share the state store, one run of a target at a time."""

    lake: Lake
    config: ReservoirConfig
    documents: Documents
    clock: Callable[[], datetime] = now_utc
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)

    def run(self, span: Span = EVERYTHING) -> RunResult:
        """Sample every window whose files are other ones than it was sampled from."""
        self._check()
        config = self.config
        name = f"reservoir:{config.signal}:{config.target}"
        with work_under(
            self.documents, name, seconds=config.lease_seconds, what="reservoir", steal=self.steal
        ) as lease:
            try:
                return self._run(span, lease)
            except Exception:
                metrics.FAILURES.labels(config.signal).inc()
                raise

    def plan(self, span: Span = EVERYTHING) -> Plan:
        """What a run would do; files are looked into, nothing is written."""
        self._check()
        return self._planned(self._source(), span)

    def _run(self, span: Span, lease: Lease) -> RunResult:
        began = time.monotonic()
        source = self._source()
        plan = self._planned(source, span, remember=True)
        results = []
        for number, turn in enumerate(plan.turns):
            self.progress("windows", number, len(plan.turns))
            lease.check()
            results.append(self._window(turn, source.parts_of(turn)))
        self.progress("windows", len(plan.turns), len(plan.turns))
        return RunResult(
            signal=self.config.signal,
            source=self.config.source,
            target=self.config.target,
            policy=self.config.policy,
            windows=tuple(results),
            current=plan.current,
            waiting=plan.waiting,
            other_policy=plan.other_policy,
            ignored=source.listing.ignored,
            seconds=time.monotonic() - began,
        )

    def _check(self) -> None:
        for key in ("source", "target"):
            if not getattr(self.config, key):
                raise ConfigError(f"reservoir.{key} is empty", hint="name a folder: `neve reservoir run SOURCE TARGET`")
        if self.config.source.rstrip("/") == self.config.target.rstrip("/"):
            raise ConfigError(
                f"reservoir.target is the source, {self.config.source}",
                hint="name another folder: a sample stands beside what it was taken from",
            )

    def _source(self) -> Source:
        return Source.of(self.lake, self.config.source, self.config.signal)

    @property
    def _ledger(self) -> Ledger:
        return Ledger.of(self.config.target, self.config.signal, self.lake.s3)

    def _planned(self, source: Source, span: Span, *, remember: bool = False) -> Plan:
        ledger = self._ledger
        files = source.looked_into(self.config.window_seconds, ledger.known_files(), self.progress)
        if remember:
            ledger.remember_files(files)
        wanted = Wanted(
            seconds=self.config.window_seconds,
            now_ns=_nanos(self.clock()),
            settle_seconds=self.config.settle_seconds,
            since_ns=_nanos(span.since) if span.since else None,
            until_ns=_nanos(span.until) if span.until else None,
            again=span.again,
        )
        return plan_source(self.config, files, ledger, wanted)

    def _window(self, turn: Turn, parts: Parts) -> WindowResult:
        began = time.monotonic()
        publisher = Publisher(self._ledger)
        publisher.clear(turn.window)
        decisions = "" if self.config.passes else self._decided(turn, parts, publisher)
        generation = turn.replaces.generation + 1 if turn.replaces and turn.replaces.done else _same(turn)
        rebuilt = self._rebuilt(turn, parts, decisions, generation, publisher)
        kept = sum(one.kept for one in rebuilt)
        self._check_kept(turn, decisions, kept)
        sampled = Sampled(
            start_ns=turn.window.start_ns,
            seconds=turn.window.seconds,
            policy=self.config.policy,
            how=self.config.how,
            files=tuple(file.identity for file in turn.files),
            outputs=tuple(path for one in rebuilt for _table, path in one.files),
            generation=generation,
            records=turn.records,
            kept=kept,
        )
        publisher.publish(turn.window, sampled, turn.replaces)
        result = self._told(turn, parts, rebuilt, time.monotonic() - began)
        metrics.count_window(self.config.signal, result)
        return result

    def _decided(self, turn: Turn, parts: Parts, publisher: Publisher) -> str:
        """Decide once, and write the decisions down for all tables."""
        session = session_for(self.lake.spark)
        open_views(session, self.config.signal, turn, parts, self.lake.s3)
        weights_view(session, self.config).createOrReplaceTempView(WEIGHTS)
        decided = decide(session, self.config, turn.window, len(parts.files))
        path = f"{self._staging(publisher, turn)}/decided"
        try:
            decided.coalesce(parallelism(self.lake.spark)).write.mode("overwrite").parquet(spark_path(path))
        except Exception as error:
            raise _refused(error) from error
        return path

    def _staging(self, publisher: Publisher, turn: Turn) -> str:
        return scheme_of(self.config.target) + publisher.staging(turn.window)

    def _rebuilt(
        self, turn: Turn, parts: Parts, decisions: str, generation: int, publisher: Publisher
    ) -> list[Rebuilt]:
        work = Rebuild(
            signal=self.config.signal,
            window=turn.window,
            generation=generation,
            staging=self._staging(publisher, turn),
            decisions=decisions,
            method=self.config.method if not self.config.query else "priority",
            numbering=Numbering(self.config.ids, self.config.adjusted_count),
            invalid_weights=self.config.invalid_weights,
            rows_per_file=self.config.rows_per_file,
            s3=self.lake.s3,
        )
        pieces = [
            Piece(file, ordinal, PartFiles(parts.files[file.part], parts.offsets[file.part]))
            for ordinal, file in enumerate(turn.files)
        ]
        return run_tasks(self.lake.spark, work, pieces, partial(self.progress, f"records of {turn.window}"))

    def _check_kept(self, turn: Turn, decisions: str, kept: int) -> None:
        """Every decision is about one record: an id that two records have would bring both."""
        expected = turn.records
        if decisions:
            spark = self.lake.spark
            expected = spark.read.parquet(spark_path(decisions)).count()
        if kept != expected:
            raise InputError(
                f"{kept:,} records of {turn.window} found for {expected:,} decisions: ids of a part are not unique",
                hint=f"`neve otap check {self.config.source}` names them; nothing of the window was published",
            )

    def _told(self, turn: Turn, parts: Parts, rebuilt: Sequence[Rebuilt], seconds: float) -> WindowResult:
        repaired = any(offsets is not None for offsets in parts.offsets.values())
        return WindowResult(
            window=str(turn.window),
            start=turn.window.start.isoformat(),
            end=turn.window.end.isoformat(),
            reason=turn.reason,
            records=sum(one.records for one in rebuilt),
            kept=sum(one.kept for one in rebuilt),
            files=sum(len(one.files) for one in rebuilt),
            bytes=sum(one.bytes for one in rebuilt),
            convention=EXPORTER if repaired else SPECIFICATION,
            counted_as_one=sum(one.counted_as_one for one in rebuilt),
            guessed=sum(one.guessed for one in rebuilt),
            seconds=seconds,
        )


def _same(turn: Turn) -> int:
    """The generation of a window that is begun, or begun again after a run that died."""
    return turn.replaces.generation if turn.replaces else 0


def _refused(error: Exception) -> Exception:
    """What Spark says of a weight that can't be, in our words."""
    text = str(error)
    if REFUSED not in text:
        return error
    said = text[text.index(REFUSED) + len(REFUSED) :].splitlines()[0].split(" SQLSTATE")[0].strip()
    return InvalidWeight(
        f"weight of record {said}, expected a finite number above 0",
        hint="set reservoir.invalid_weights: one to count such records as 1; nothing of the window was published",
    )


def _nanos(moment: datetime) -> int:
    return int(moment.timestamp()) * NANOS
