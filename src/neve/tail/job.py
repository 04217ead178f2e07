"""The job: cycles of a selector, one at a time among all of its name."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from neve.lake.calendar import now_utc
from neve.lake.leases import work_under
from neve.model.tail import DECISIONS, OPEN_TRACES
from neve.tail import metrics
from neve.tail.claims import NoClaims
from neve.tail.cycle import write_decisions, write_open
from neve.tail.decisions import Made
from neve.tail.engine import engine_for, summing
from neve.tail.export.outbox import Outbox
from neve.tail.gather import Gathering
from neve.tail.judging import Judging, horizon
from neve.tail.news import News, chunks_of, everything, news_since
from neve.tail.policy.state import LimitState
from neve.tail.position import TAIL, Before, Position, before_cycle
from neve.tail.ready import MICROS, Readiness
from neve.tail.result import CycleResult, cycle_result
from neve.tail.scratch import scratch
from neve.tail.source import Source
from neve.tail.stored import commit_decisions, commit_open, decision_files, last_cycle, open_files
from neve.tail.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pyiceberg.table import Table

    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.lake.leases import Lease
    from neve.tail.claims import Claims
    from neve.tail.config import TailConfig
    from neve.tail.policy.tree import PolicySet

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Selector:
    """Decides about the traces of one table, and writes what it decided into the lake."""

    lake: Lake
    spans: Lake  # where the spans are: mostly the same
    config: TailConfig
    policies: PolicySet
    documents: Documents
    claims: Claims | None = None
    clock: Callable[[], datetime] = now_utc
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)

    @cached_property
    def source(self) -> Source:
        """The table of spans, with its columns checked against what the policies ask."""
        return Source.of(self.spans, self.config, self.policies)

    @property
    def readiness(self) -> Readiness:
        """When traces are complete."""
        return Readiness.of(self.config, self.policies)

    def run(self) -> CycleResult:
        """Run one cycle; one that was killed before it is finished first."""
        name, seconds = f"{TAIL}:{self.config.name}", self.config.lease_seconds
        with work_under(self.documents, name, seconds=seconds, what="tail", steal=self.steal) as lease:
            before = self._before()
            if before.unfinished is not None:
                self._finish(before, before.unfinished, lease)
                before = self._before()
            result = self._cycle(before, lease)
        metrics.count_cycle(result)
        return result

    def _before(self) -> Before:
        return before_cycle(self._decisions, self._opened, self.config.name, self.config.source.table)

    def _cycle(self, before: Before, lease: Lease) -> CycleResult:
        began = time.monotonic()
        news = self._news(before)
        position = self._position(before, news)
        opened = self._opened
        told = partial(cycle_result, self.config.name, position, news, began)
        if not news.files and before.position is not None and not open_files(opened, self.config.name):
            return told(Tally(), idle=True)
        engine, tally = engine_for(self.config, news), Tally()
        with self._gathered(news, position, before, engine) as judging:
            files = write_decisions(self._decisions, judging, tally)
            if not files and not news.files and before.position is not None:
                return told(tally, engine=engine, idle=True, left=judging.open_count())
            position = replace(position, limits={owner: one.as_document() for owner, one in judging.limits.items()})
            lease.check()
            snapshot = None
            if files:
                snapshot = commit_decisions(self._decisions, files, self.config.name, position).snapshot_id
            left = write_open(opened, judging)
            lease.check()
            commit_open(opened, left, self.config.name, position)
            remarks = tuple(filter(None, (self._claims.trouble, self._left_out(news, judging))))
        return told(
            tally, engine=engine, snapshot=snapshot, left=sum(file.record_count for file in left), remarks=remarks
        )

    def _finish(self, before: Before, position: Position, lease: Lease) -> None:
        """Write the open traces of a cycle that was killed when it had committed its decisions.

        Where what it read can't be read again, or it waited for traces in another way than now, nothing is left open,
        and the next cycle looks at everything.
        """
        news = self._news(before, until=position.snapshot_id)
        mine = position.layout == self.source.layout and position.waits == self._waits
        if news.snapshot_id != position.snapshot_id or not mine:
            commit_open(self._opened, [], self.config.name, replace(position, layout=""))
            return
        with self._gathered(news, position, before, engine_for(self.config, news)) as judging:
            left = write_open(self._opened, judging)
            lease.check()
            commit_open(self._opened, left, self.config.name, position)

    def _news(self, before: Before, until: int | None = None) -> News:
        table, last = self.source.now(), before.position
        if until is not None and table.snapshot_by_id(until) is not None:
            table = self.source.now(until)
        if last is not None and last.layout != self.source.layout:
            return everything(table, last.snapshot_id, "the policies ask spans for other things than before")
        if last is None and self.config.start == "new" and before.unfinished is None:
            return News((), None, table.metadata.current_snapshot_id)
        return news_since(table, last.snapshot_id if last else None, known=last is not None)

    def _position(self, before: Before, news: News) -> Position:
        """Where the selector is after the cycle that begins, but for what it decides."""
        now_us = round(self.clock().timestamp() * MICROS)
        cycle = before.cycle
        if before.position is None:  # a place that is lost: numbers that exporters have seen must not come again
            cursors = Outbox(self.documents, self.config.name).positions().values()
            cycle = max(last_cycle(self._decisions, self.config.name), *(cursor.sequence for cursor in cursors), 0)
        return Position(
            cycle=cycle + 1,
            source=self.config.source.table,
            snapshot_id=news.snapshot_id,
            now_us=now_us,
            until_us=horizon(self.policies, self.config.window_seconds, now_us, before.until_us),
            policies=self.policies.fingerprint,
            layout=self.source.layout,
            waits=self._waits,
            limits=before.limits,
        )

    @property
    def _waits(self) -> str:
        return repr((self.readiness, self.config.window_seconds, self.config.late_seconds))

    def _left_out(self, news: News, judging: Judging) -> str:
        """What is said of spans that belong to no trace."""
        if self.config.source.organization or any(file.deletes for file in news.files):
            return ""  # then fewer are expected
        count = news.rows - judging.new_spans
        return f"{count:,} spans have no trace id that can be read, and were left out" if count > 0 else ""

    @contextmanager
    def _gathered(self, news: News, position: Position, before: Before, engine: str) -> Iterator[Judging]:
        """Everything that a cycle needs to know, in a DuckDB of its own."""
        config = self.config
        on_s3 = self.source.on_s3 or self.lake.lake.on_s3
        with scratch(self.spans.s3, on_s3=on_s3, memory_mb=config.memory_mb, threads=config.threads) as connection:
            gathering = Gathering(connection, self.source.summary)
            gathering.begin()
            chunks = chunks_of(news.files, config.chunk_rows)
            tell = partial(self.progress, "spans")
            summing(engine, self.spans, gathering, self.source.reader, chunks, tell)
            if not news.whole:
                gathering.recall_open([file.file_path for file in open_files(self._opened, config.name)])
            oldest = None if news.whole else position.now_us - round(config.late_seconds * MICROS)
            gathering.recall_known(decision_files(self._decisions, oldest), config.name, position.cycle, oldest)
            new_spans = gathering.new_spans
            gathering.merge(whole=bool(news.whole))
            made = Made(
                selector=config.name,
                source=config.source.table,
                snapshot_id=news.snapshot_id,
                since=news.since,
                policies=self.policies.fingerprint,
                cycle=position.cycle,
                now_us=position.now_us,
            )
            limits = {owner: LimitState.from_document(document) for owner, document in before.limits.items()}
            yield Judging(
                connection=connection,
                summary=self.source.summary,
                readiness=self.readiness,
                policies=self.policies,
                window_seconds=config.window_seconds,
                claims=self._claims,
                made=made,
                since_us=before.until_us,
                until_us=position.until_us,
                limits=limits,
                new_spans=new_spans,
            )

    @cached_property
    def _claims(self) -> Claims:
        return self.claims or NoClaims(self.config.name)

    @property
    def _decisions(self) -> Table:
        return self.lake.table(DECISIONS.name)

    @property
    def _opened(self) -> Table:
        return self.lake.table(OPEN_TRACES.name)
