"""The job: windows of a folder whose files changed are sampled anew, each as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.lake.calendar import now_utc
from neve.lake.filesystem import filesystem_of
from neve.lake.leases import work_under
from neve.reservoir import metrics
from neve.reservoir.result import RunResult, WindowResult
from neve.reservoir.star.files import scheme_of
from neve.reservoir.star.ledger import Ledger
from neve.reservoir.star.plan import Plan, Turn, Wanted
from neve.reservoir.star.publish import Publisher
from neve.reservoir.star.sampling import Sampling
from neve.reservoir.star.source import Source, plan_source
from neve.reservoir.window import nanos_of

if TYPE_CHECKING:
    from datetime import datetime

    from neve.lake.config import S3Config
    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.lake.leases import Lease
    from neve.reservoir.config import ReservoirConfig

Progress = Callable[[str, int, int], None]


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
        name = f"reservoir:{config.signal}:{config.target.rstrip('/')}"
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
            results.append(self._window(turn, source, lease))
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
            gone=plan.gone,
            ignored=source.listing.ignored,
            seconds=time.monotonic() - began,
        )

    def _check(self) -> None:
        for key in ("source", "target"):
            if not getattr(self.config, key):
                raise ConfigError(f"reservoir.{key} is empty", hint="name a folder: `neve reservoir run SOURCE TARGET`")
        source, target = (_place(folder, self.lake.s3) for folder in (self.config.source, self.config.target))
        if source == target:
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
        seconds = self.config.window_seconds
        files = source.looked_into(seconds, ledger.known_files(seconds), self.progress)
        if remember:
            ledger.remember_files(files, seconds)
        wanted = Wanted(
            seconds=seconds,
            now_ns=nanos_of(self.clock()),
            settle_seconds=self.config.settle_seconds,
            since=span.since,
            until=span.until,
            again=span.again,
        )
        return plan_source(self.config, files, ledger, wanted)

    def _window(self, turn: Turn, source: Source, lease: Lease) -> WindowResult:
        began = time.monotonic()
        publisher = Publisher(self._ledger)
        publisher.clear(turn.window)
        staging = scheme_of(self.config.target) + publisher.staging(turn.window)
        made = Sampling(self.lake, self.config, turn, source.parts_of(turn), staging).run(self.progress)
        lease.check()
        publisher.publish(turn.window, made.sampled, turn.replaces)
        result = replace(made.result, seconds=time.monotonic() - began)
        metrics.count_window(self.config.signal, result)
        return result


def _place(folder: str, s3: S3Config) -> tuple[str, str]:
    """Where a folder is, however it is written."""
    filesystem, path = filesystem_of(folder, s3)
    return filesystem.type_name, path.rstrip("/")
