"""The selector in memory: the same summaries, policies and decisions as from a lake, over buffered spans.

Undecided spans are held within `tail.buffer_mb`. A process that dies loses them unless its feed can be replayed.
Decisions are also written to `trace_decisions` if a lake is configured, with the state that the next process needs.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.errors import ConfigError, NeveError
from neve.lake.calendar import now_utc
from neve.lake.tables import iceberg_schema
from neve.lake.write.table_writer import Target, write_files
from neve.logger import get_logger
from neve.model.decision_tables import DECISIONS
from neve.model.tables import SPANS
from neve.tail import metrics
from neve.tail.checkpoint import Checkpoint
from neve.tail.claims import NoClaims
from neve.tail.column_mapping import map_columns
from neve.tail.cycle_files import commit_decisions
from neve.tail.decisions import DecisionContext
from neve.tail.judge import MICROS, CycleJudge, Readiness, compute_horizon
from neve.tail.memory.cycle import (
    MEMORY_SOURCE,
    EarlyAllowance,
    MemoryCycle,
    MemoryCycleResult,
    build_memory_result,
    build_remarks,
)
from neve.tail.memory.delivery import DeliveryDispatcher, DeliveryQueue
from neve.tail.memory.span_buffer import FeedLedger, SpanBuffer, number_rows, select_rows, split_rows
from neve.tail.memory.trace_store import TraceStore
from neve.tail.metrics import REFUSED, count_memory_cycle
from neve.tail.policy.evaluate.limits import LimitState
from neve.tail.span_source import SpanReader
from neve.tail.trace_summary import SummaryQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.tail.claims import Claims
    from neve.tail.config import TailConfig
    from neve.tail.export.destination import DeliveryResult, Destination
    from neve.tail.policy.tree import PolicySet


@dataclass(frozen=True)
class SelectorState:
    """State after the last cycle: its number, the time up to which ready traces are decided, and the limits."""

    cycle: int = 0
    until_us: int = 0
    limits: dict[str, LimitState] = field(default_factory=dict)

    @classmethod
    def after(cls, last: Checkpoint | None) -> SelectorState:
        """Restore the state of an earlier process of the selector, without the spans that it buffered."""
        if last is None:
            return cls()
        limits = {owner: LimitState.from_document(document) for owner, document in last.limits.items()}
        return cls(last.cycle, last.until_us, limits)

    def next(self, judge: CycleJudge) -> SelectorState:
        """Return the state after a cycle."""
        return SelectorState(self.cycle + 1, judge.until_us, judge.limits)

    def position(self, policies: str, now_us: int) -> Checkpoint:
        """Return the state as a checkpoint for a commit."""
        limits = {owner: one.as_document() for owner, one in self.limits.items()}
        return Checkpoint(self.cycle, MEMORY_SOURCE, None, now_us, self.until_us, policies, "", limits=limits)


MAX_UNWRITTEN_ROWS = 100_000  # rows that are held back while the lake is unavailable

log = get_logger("neve.tail")


class DecisionLog:
    """Writer of the table `trace_decisions`, which retries failed writes later and never blocks decisions."""

    def __init__(self, lake: Lake, selector: str) -> None:
        self._lake, self._selector = lake, selector
        self._unwritten: list[pa.Table] = []
        self._lock = threading.Lock()

    def last(self) -> Checkpoint | None:
        """Return the checkpoint of an earlier process of the selector.

        Raises `ConfigError` if that process read spans from a table.
        """
        last = Checkpoint.of(self._table(), self._selector)
        if last is not None and last.source != MEMORY_SOURCE:
            raise ConfigError(
                f"the selector {self._selector!r} reads {last.source}, but tail.storage is memory",
                hint="use another tail.name for the selector in memory",
            )
        return last

    def write(self, rows: pa.Table, position: Checkpoint) -> tuple[int | None, str]:
        """Commit decisions, and return the snapshot id, or `None` and the error."""
        with self._lock:
            self._unwritten.append(rows)
            waiting = pa.concat_tables(self._unwritten)
            if not waiting.num_rows:
                return None, ""
            try:
                table = self._table()
                commit = commit_decisions(table, write_files(Target.of(table), waiting), self._selector, position)
            except Exception as error:  # any error by which the catalog, its driver or the storage is unavailable
                log.error("can't write decisions", selector=self._selector, error=str(error))
                return None, self._keep_unwritten(
                    waiting, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
                )
            self._unwritten = []
        return commit.snapshot_id, ""

    def _keep_unwritten(self, waiting: pa.Table, error: str) -> str:
        gone = max(0, waiting.num_rows - MAX_UNWRITTEN_ROWS)
        self._unwritten = [waiting.slice(gone)]
        words = f"{waiting.num_rows - gone:,} decisions are not yet written to {DECISIONS.name}: {error}"
        return f"{words}; {gone:,} older ones are discarded" if gone else words

    def _table(self) -> Table:
        return self._lake.table(DECISIONS.name)


MB = 1024 * 1024
MAX_DECIDED_TRACES = 200_000  # decided traces, about 300 bytes each
PIECES_PER_BUFFER = 8  # pieces of fed rows that fit the bound


class MemorySelector:
    """Selector that buffers rows of the table `spans` from any thread, and decides about their traces."""

    def __init__(  # noqa: PLR0913 - all that it needs
        self,
        config: TailConfig,
        policies: PolicySet,
        clock: Callable[[], datetime] = now_utc,
        claims: Claims | None = None,
        destinations: Sequence[Destination] = (),
        *,
        log: DecisionLog | None = None,
        report: Callable[[MemoryCycleResult], None] = lambda _result: None,
        most_remembered: int = MAX_DECIDED_TRACES,
    ) -> None:
        self.config, self.policies = config, policies
        self.bound = config.buffer_mb * MB
        self.queues = tuple(DeliveryQueue(one, config.name, self.bound) for one in destinations)
        self._clock, self._claims = clock, claims or NoClaims(config.name)
        self._log, self._report, self._most_remembered = log, report, most_remembered
        self._state = SelectorState.after(log.last() if log else None)
        columns = map_columns(iceberg_schema(SPANS), type(config.source)())
        self._reader = SpanReader(iceberg_schema(SPANS), columns, config.source.organization)
        self._summary = SummaryQuery(policies, config.clock)
        self._allowance = EarlyAllowance(policies, config.window_seconds)
        self._held, self._ledger = SpanBuffer(), FeedLedger()
        self._traces = TraceStore(config, self._summary)
        self._dispatcher = DeliveryDispatcher(self.queues, self._ledger)
        self._lock = threading.RLock()
        self._stopped = False
        self._fed = 0  # rows so far

    @property
    def held_bytes(self) -> int:
        """Memory that the spans of open traces use."""
        return self._held.bytes

    @property
    def is_congested(self) -> bool:
        """True if the queue of a destination is more than half full, so that a feed should pause if it can."""
        return any(queue.is_full for queue in self.queues)

    def feed(self, rows: pa.Table | pa.RecordBatch, done: Callable[[], None] | None = None) -> None:
        """Buffer rows of the table `spans`, and decide the oldest traces early if the rows exceed the bound.

        `done` is called, in any thread, when all rows are decided, and those of kept traces are delivered.
        """
        fitting, lost = select_rows(rows, self.config.source.organization, self._now_us())
        if lost:
            REFUSED.labels(self.config.name, "no_trace_id").inc(lost)
        results = []
        with self._lock:
            if self._stopped:
                raise NeveError("the selector is stopping and accepts no more spans", hint="send them again later")
            receipt = self._ledger.open(fitting.num_rows, done)
            fitting, self._fed = number_rows(fitting, self._fed), self._fed + fitting.num_rows
            for piece in split_rows(fitting, receipt, self.bound // PIECES_PER_BUFFER):
                self._held.add(piece)
                if self._held.bytes > self.bound:
                    results.append(self._run_cycle(everything=False))
        for result, position in results:
            self._publish(result, position)

    def decide(self, *, everything: bool = False) -> MemoryCycleResult:
        """Decide ready traces, or all traces, and queue the kept ones for delivery."""
        with self._lock:
            result, position = self._run_cycle(everything=everything)
        return self._publish(result, position)

    def deliver(self) -> tuple[DeliveryResult, ...]:
        """Deliver queued batches to each destination, in this thread."""
        return tuple(queue.deliver() for queue in self.queues)

    def cycle(self, *, everything: bool = False) -> MemoryCycleResult:
        """Decide and deliver."""
        result = self.decide(everything=everything)
        deliveries = self.deliver()
        away = tuple(f"{one.destination} is unavailable: {one.error.message}" for one in deliveries if one.error)
        return replace(result, deliveries=deliveries, remarks=(*result.remarks, *away))

    def start(self) -> None:
        """Start deliveries in the background, with a thread for each destination."""
        for queue in self.queues:
            queue.start()

    def stop(self, seconds: float) -> dict[str, int]:
        """Reject further spans, deliver for a limited time, and return the undelivered spans by destination."""
        with self._lock:
            self._stopped = True
        for queue in self.queues:
            queue.stop(seconds)
        with self._lock:
            self._traces.close()
        return {one.destination.name: one.waiting_spans for one in self.queues if one.waiting_spans}

    def _now_us(self) -> int:
        return round(self._clock().timestamp() * MICROS)

    def _run_cycle(self, *, everything: bool) -> tuple[MemoryCycleResult, Checkpoint]:
        """Run one cycle as a transaction: completely, or not at all."""
        began, now_us = time.monotonic(), self._now_us()
        new, lost = self._held.new(), self._count_lost()
        with self._transaction():
            self._traces.load(self._reader, new, now_us - round(self.config.late_seconds * MICROS))
            cycle = MemoryCycle(self._held, self._traces, self._build_judge(now_us), self._allowance, self.bound)
            cycle.decide_ready()
            cycle.decide_early(everything=everything)
            self._held.mark_seen()
            self._traces.store_open()
            forgotten = self._traces.forget(self._most_remembered)
        for decided in cycle.decided_spans:
            self._dispatcher.send(decided)
        if cycle.rows:
            pa.default_memory_pool().release_unused()
        result = build_memory_result(
            self.config, cycle, new, open_count=self._traces.open_count, seconds=time.monotonic() - began
        )
        if result.committed:
            self._state = self._state.next(cycle.judge)
        result = replace(result, forgotten=forgotten, lost=self._count_lost(lost))
        remarks = build_remarks(cycle, result, self.config, self._most_remembered, everything=everything)
        return replace(result, remarks=tuple(remarks)), self._state.position(self.policies.fingerprint, now_us)

    def _build_judge(self, now_us: int) -> CycleJudge:
        config, before = self.config, self._state
        context = DecisionContext(
            config.name, MEMORY_SOURCE, None, None, self.policies.fingerprint, before.cycle + 1, now_us
        )
        return CycleJudge(
            connection=self._traces.connection,
            summary=self._summary,
            readiness=Readiness.of(config, self.policies),
            policies=self.policies,
            window_seconds=config.window_seconds,
            claims=self._claims,
            context=context,
            since_us=before.until_us,
            until_us=compute_horizon(self.policies, config.window_seconds, now_us, before.until_us),
            limits=dict(before.limits),
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Change the trace store and the buffer together, or restore both on an error."""
        held, connection = self._held.state(), self._traces.connection
        connection.execute("BEGIN")
        try:
            yield
            self._traces.clear()
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            self._held.restore(held)
            raise

    def _publish(self, result: MemoryCycleResult, position: Checkpoint) -> MemoryCycleResult:
        if self._log is not None and result.committed:
            snapshot, trouble = self._log.write(result.decisions, position)
            remarks = (*result.remarks, trouble) if trouble else result.remarks
            result = replace(result, snapshot=str(snapshot or ""), remarks=remarks)
        metrics.count_cycle(result)
        count_memory_cycle(result)
        self._report(result)
        return result

    def _count_lost(self, before: Mapping[str, int] | None = None) -> dict[str, int]:
        """Return the number of lost spans for each destination, in total or since `before`."""
        if before is None:
            return {one.destination.name: one.lost_spans for one in self.queues}
        return {name: spans - before[name] for name, spans in self._count_lost().items() if spans > before[name]}
