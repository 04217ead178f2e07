"""The selector: run cycles under a lease, one at a time among all processes of its name.

A cycle reads and aggregates new spans, judges the traces that became complete, and commits. Decisions are committed
first, then the open traces. A cycle that was killed between the two commits is finished by the next one: which
traces were decided follows from the checkpoint that the decisions carry.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.lake.calendar import now_utc
from neve.lake.duckdb import open_scratch_database
from neve.lake.write.table_writer import Target, write_files
from neve.model.decision_tables import DECISIONS, OPEN_TRACES
from neve.state.leases import hold_worker_lease
from neve.tail import metrics
from neve.tail.checkpoint import TAIL, Checkpoint, CycleStart, load_cycle_start
from neve.tail.claims import NoClaims
from neve.tail.cycle_files import commit_decisions, commit_open, list_decision_files, list_open_files, read_last_cycle
from neve.tail.decisions import CycleResult, DecisionContext, Tally, build_cycle_result, build_open_rows
from neve.tail.export.cursor import ExportCursors
from neve.tail.judge import MICROS, CycleJudge, Readiness, compute_horizon
from neve.tail.new_files import NewFiles, find_new_files, list_all_files, split_into_chunks
from neve.tail.policy.evaluate.limits import LimitState
from neve.tail.span_aggregation import MERGED_TRACES, CycleTables, aggregate_spans, choose_engine
from neve.tail.span_repeats import find_repeats
from neve.tail.span_source import SpanSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.state.documents import Documents
    from neve.state.leases import Lease
    from neve.tail.claims import Claims
    from neve.tail.config import TailConfig
    from neve.tail.policy.tree import PolicySet


WRITE_ROWS = 25_000


def write_decisions(table: Table, judge: CycleJudge, tally: Tally) -> list[DataFile]:
    """Judge ready traces and write the decisions, which are not visible before the commit."""
    rows = (part for some in (judge.decide_ready(), judge.decide_late()) for part in some)
    return list(_write_batches(table, map(tally.add, rows)))


def write_open(table: Table, judge: CycleJudge) -> list[DataFile]:
    """Write the traces that stay open."""
    batches = judge.connection.execute(f"SELECT * FROM {MERGED_TRACES} WHERE NOT ({judge.is_ready})").to_arrow_reader(
        WRITE_ROWS
    )
    selector = judge.context.selector
    rows = (
        build_open_rows(pa.Table.from_batches([batch]), judge.summary, selector) for batch in batches if batch.num_rows
    )
    return list(_write_batches(table, rows))


def _write_batches(table: Table, rows: Iterable[pa.Table]) -> Iterator[DataFile]:
    """Write rows to files, with a minimum number of rows in each except the last."""
    target = Target.of(table)
    held: list[pa.Table] = []
    for part in rows:
        held.append(part)
        if sum(one.num_rows for one in held) >= WRITE_ROWS:
            yield from write_files(target, pa.concat_tables(held))
            held = []
            pa.default_memory_pool().release_unused()
    if held:
        yield from write_files(target, pa.concat_tables(held))


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class TailSelector:
    """Selector that decides about the traces of one table, and writes its decisions to the lake."""

    lake: Lake
    spans: Lake  # lake of the spans, usually the same
    config: TailConfig
    policies: PolicySet
    documents: Documents
    claims: Claims | None = None
    clock: Callable[[], datetime] = now_utc
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)

    @cached_property
    def source(self) -> SpanSource:
        """Table of spans, with its columns checked against the policies."""
        return SpanSource.of(self.spans, self.config, self.policies)

    @property
    def readiness(self) -> Readiness:
        """Rules for when traces are complete."""
        return Readiness.of(self.config, self.policies)

    def run(self) -> CycleResult:
        """Run one cycle, after finishing an earlier one that was killed."""
        name, seconds = f"{TAIL}:{self.config.name}", self.config.lease_seconds
        with hold_worker_lease(self.documents, name, seconds=seconds, what="tail", steal=self.steal) as lease:
            before = self._load_start()
            if before.unfinished is not None:
                self._finish(before, before.unfinished, lease)
                before = self._load_start()
            result = self._cycle(before, lease)
        metrics.count_cycle(result)
        return result

    def _load_start(self) -> CycleStart:
        return load_cycle_start(self._decisions, self._open_traces, self.config.name, self.config.source.table)

    def _cycle(self, before: CycleStart, lease: Lease) -> CycleResult:
        began = time.monotonic()
        new_files = self._find_files(before)
        position = self._position(before, new_files)
        open_traces = self._open_traces
        make_result = partial(build_cycle_result, self.config.name, position, new_files, began)
        if (
            not self._has_input(new_files)
            and before.position is not None
            and not list_open_files(open_traces, self.config.name)
        ):
            return make_result(Tally(), idle=True)
        engine, tally = choose_engine(self.config, new_files), Tally()
        with self._open_judge(new_files, position, before, engine) as judge:
            files = write_decisions(self._decisions, judge, tally)
            if not files and not self._has_input(new_files) and before.position is not None:
                return make_result(tally, engine=engine, idle=True, left=judge.open_count())
            position = replace(position, limits={owner: one.as_document() for owner, one in judge.limits.items()})
            lease.check()
            snapshot = None
            if files:
                snapshot = commit_decisions(self._decisions, files, self.config.name, position).snapshot_id
            left = write_open(open_traces, judge)
            lease.check()
            commit_open(open_traces, left, self.config.name, position)
            remarks = tuple(filter(None, (self._claims.trouble, self._describe_skipped(new_files, judge))))
        return make_result(
            tally, engine=engine, snapshot=snapshot, left=sum(file.record_count for file in left), remarks=remarks
        )

    def _finish(self, before: CycleStart, position: Checkpoint, lease: Lease) -> None:
        """Write the open traces of a cycle that was killed after the commit of its decisions.

        If its input can't be read again, or the rules for waiting have changed since, no trace is left open, and the
        next cycle reads everything.
        """
        new_files = self._find_files(before, until=position.snapshot_id)
        mine = position.layout == self.source.layout and position.waits == self._waits
        if new_files.snapshot_id != position.snapshot_id or not mine:
            commit_open(self._open_traces, [], self.config.name, replace(position, layout=""))
            return
        with self._open_judge(new_files, position, before, choose_engine(self.config, new_files)) as judge:
            left = write_open(self._open_traces, judge)
            lease.check()
            commit_open(self._open_traces, left, self.config.name, position)

    def _find_files(self, before: CycleStart, until: int | None = None) -> NewFiles:
        table, last = self.source.now(), before.position
        if until is not None and table.snapshot_by_id(until) is not None:
            table = self.source.now(until)
        if last is not None and last.layout != self.source.layout:
            return list_all_files(table, last.snapshot_id, "the policies evaluate other conditions than before")
        if last is None and self.config.start == "new" and before.unfinished is None:
            return NewFiles((), None, table.metadata.current_snapshot_id)
        return find_new_files(table, last.snapshot_id if last else None, known=last is not None)

    def _has_input(self, new_files: NewFiles) -> bool:
        return bool(new_files.files) or (self.source.counts_repeats and bool(new_files.repeats))

    def _position(self, before: CycleStart, new_files: NewFiles) -> Checkpoint:
        """Return the checkpoint after the current cycle, without its decisions."""
        now_us = round(self.clock().timestamp() * MICROS)
        cycle = before.cycle
        if before.position is None:  # a lost checkpoint: cycle numbers that exporters have seen must not be reused
            cursors = ExportCursors(self.documents, self.config.name).positions().values()
            cycle = max(read_last_cycle(self._decisions, self.config.name), *(cursor.sequence for cursor in cursors), 0)
        return Checkpoint(
            cycle=cycle + 1,
            source=self.config.source.table,
            snapshot_id=new_files.snapshot_id,
            now_us=now_us,
            until_us=compute_horizon(self.policies, self.config.window_seconds, now_us, before.until_us),
            policies=self.policies.fingerprint,
            layout=self.source.layout,
            waits=self._waits,
            limits=before.limits,
        )

    @property
    def _waits(self) -> str:
        return repr((self.readiness, self.config.window_seconds, self.config.late_seconds))

    def _describe_skipped(self, new_files: NewFiles, judge: CycleJudge) -> str:
        """Return a remark on spans without a trace id, or empty."""
        if self.config.source.organization or any(file.deletes for file in new_files.files):
            return ""  # fewer spans are expected then
        count = new_files.rows - judge.new_spans
        return f"{count:,} spans without a valid trace id were skipped" if count > 0 else ""

    @contextmanager
    def _open_judge(
        self, new_files: NewFiles, position: Checkpoint, before: CycleStart, engine: str
    ) -> Iterator[CycleJudge]:
        """Collect the input of a cycle in a scratch DuckDB."""
        config = self.config
        on_s3 = self.source.on_s3 or self.lake.lake.on_s3
        with open_scratch_database(
            self.spans.s3, on_s3=on_s3, memory_mb=config.memory_mb, threads=config.threads
        ) as connection:
            tables = CycleTables(connection, self.source.summary)
            tables.begin()
            chunks = split_into_chunks(new_files.files, config.chunk_rows)
            report = partial(self.progress, "spans")
            aggregate_spans(engine, self.spans, tables, self.source.reader, chunks, report)
            new_spans = tables.new_spans
            tables.add_repeats(find_repeats(self.source, new_files.repeats))
            if not new_files.whole:
                tables.add_open_traces([file.file_path for file in list_open_files(self._open_traces, config.name)])
            oldest = None if new_files.whole else position.now_us - round(config.late_seconds * MICROS)
            tables.add_decisions(list_decision_files(self._decisions, oldest), config.name, position.cycle, oldest)
            tables.merge(whole=bool(new_files.whole))
            context = DecisionContext(
                selector=config.name,
                source=config.source.table,
                snapshot_id=new_files.snapshot_id,
                since=new_files.since,
                policies=self.policies.fingerprint,
                cycle=position.cycle,
                now_us=position.now_us,
            )
            limits = {owner: LimitState.from_document(document) for owner, document in before.limits.items()}
            yield CycleJudge(
                connection=connection,
                summary=self.source.summary,
                readiness=self.readiness,
                policies=self.policies,
                window_seconds=config.window_seconds,
                claims=self._claims,
                context=context,
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
    def _open_traces(self) -> Table:
        return self.lake.table(OPEN_TRACES.name)
