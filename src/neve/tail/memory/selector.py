"""A selector whose spans are in memory: the same summaries, the same policies and the same decisions as from a lake.

What was fed and not decided is held, within `tail.buffer_mb`. A process that dies loses it, unless its feed can be read
again; that is what the lake is for.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.errors import NeveError
from neve.lake.calendar import now_utc
from neve.lake.tables import iceberg_schema
from neve.model.tables import SPANS
from neve.tail import metrics
from neve.tail.claims import NoClaims
from neve.tail.decisions import Made
from neve.tail.judging import Judging, horizon
from neve.tail.mapping import map_columns
from neve.tail.memory.courier import Courier
from neve.tail.memory.feeding import fit, pieces
from neve.tail.memory.held import Held
from neve.tail.memory.ledger import Ledger
from neve.tail.memory.metrics import REFUSED, count_memory
from neve.tail.memory.pressing import Allowance
from neve.tail.memory.recall import Recall
from neve.tail.memory.remarks import remarks_of
from neve.tail.memory.result import MEMORY, MemoryResult, memory_result
from neve.tail.memory.shipping import Shipping
from neve.tail.memory.standing import Standing
from neve.tail.memory.turn import Turn
from neve.tail.reading import SpanReader
from neve.tail.ready import MICROS, Readiness
from neve.tail.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from neve.tail.claims import Claims
    from neve.tail.config import TailConfig
    from neve.tail.export.port import Destination
    from neve.tail.export.pump import PumpResult
    from neve.tail.memory.log import DecisionLog
    from neve.tail.policy.tree import PolicySet
    from neve.tail.position import Position

MB = 1024 * 1024
MOST_REMEMBERED = 200_000  # decided traces, about 300 bytes each
PIECES = 8  # so many pieces of what was fed fit the bound


class MemorySelector:
    """Takes rows of the table `spans` from any thread, and decides about their traces."""

    def __init__(  # noqa: PLR0913 - all that it needs
        self,
        config: TailConfig,
        policies: PolicySet,
        clock: Callable[[], datetime] = now_utc,
        claims: Claims | None = None,
        destinations: Sequence[Destination] = (),
        *,
        log: DecisionLog | None = None,
        tell: Callable[[MemoryResult], None] = lambda _result: None,
        most_remembered: int = MOST_REMEMBERED,
    ) -> None:
        self.config, self.policies = config, policies
        self.bound = config.buffer_mb * MB
        self.couriers = tuple(Courier(one, config.name, self.bound) for one in destinations)
        self._clock, self._claims = clock, claims or NoClaims(config.name)
        self._log, self._tell, self._most_remembered = log, tell, most_remembered
        self._standing = Standing.after(log.last() if log else None)
        columns = map_columns(iceberg_schema(SPANS), type(config.source)())
        self._reader = SpanReader(iceberg_schema(SPANS), columns, config.source.organization)
        self._summary = Summary(policies, config.clock)
        self._allowance = Allowance(policies, config.window_seconds)
        self._held, self._ledger = Held(), Ledger()
        self._recall = Recall(config, self._summary)
        self._shipping = Shipping(self.couriers, self._ledger)
        self._lock = threading.RLock()
        self._stopped = False

    @property
    def held_bytes(self) -> int:
        """How much memory the spans of open traces take."""
        return self._held.bytes

    @property
    def is_congested(self) -> bool:
        """Whether much waits for a destination: a feed that can wait should."""
        return any(courier.is_full for courier in self.couriers)

    def feed(self, rows: pa.Table | pa.RecordBatch, done: Callable[[], None] | None = None) -> None:
        """Hold rows of the table `spans`; what does not fit the bound makes the traces go that were seen first.

        `done` is called, in any thread, when all of them are decided, and those of kept traces delivered.
        """
        fitting, lost = fit(rows, self.config.source.organization, self._now_us())
        if lost:
            REFUSED.labels(self.config.name, "no_trace_id").inc(lost)
        results = []
        with self._lock:
            if self._stopped:
                raise NeveError("the selector takes no more spans: it is stopping", hint="send them again later")
            receipt = self._ledger.open(fitting.num_rows, done)
            for piece in pieces(fitting, receipt, self.bound // PIECES):
                self._held.add(piece)
                if self._held.bytes > self.bound:
                    results.append(self._turn(everything=False))
        for result, position in results:
            self._publish(result, position)

    def decide(self, *, everything: bool = False) -> MemoryResult:
        """Decide what is ready, or everything that is there; what is kept waits for its couriers."""
        with self._lock:
            result, position = self._turn(everything=everything)
        return self._publish(result, position)

    def deliver(self) -> tuple[PumpResult, ...]:
        """Bring what waits to each destination, in this thread."""
        return tuple(courier.bring() for courier in self.couriers)

    def cycle(self, *, everything: bool = False) -> MemoryResult:
        """Decide and deliver."""
        result = self.decide(everything=everything)
        deliveries = self.deliver()
        away = tuple(f"{one.destination} is away: {one.away.message}" for one in deliveries if one.away)
        return replace(result, deliveries=deliveries, remarks=(*result.remarks, *away))

    def start(self) -> None:
        """Deliver from now on beside everything else, each destination in a thread of its own."""
        for courier in self.couriers:
            courier.start()

    def stop(self, seconds: float) -> dict[str, int]:
        """Take nothing more, deliver what is decided for so long at most; how many spans each destination lacks."""
        with self._lock:
            self._stopped = True
        for courier in self.couriers:
            courier.stop(seconds)
        with self._lock:
            self._recall.close()
        return {one.destination.name: one.waiting_spans for one in self.couriers if one.waiting_spans}

    def _now_us(self) -> int:
        return round(self._clock().timestamp() * MICROS)

    def _turn(self, *, everything: bool) -> tuple[MemoryResult, Position]:
        """One cycle: it happens as a whole, or not at all."""
        began, now_us = time.monotonic(), self._now_us()
        new, lost = self._held.new(), self._lost()
        with self._whole():
            self._recall.gather(self._reader, new, now_us - round(self.config.late_seconds * MICROS))
            turn = Turn(self._held, self._recall, self._judging(now_us), self._allowance, self.bound)
            turn.ready()
            turn.relieve(everything=everything)
            self._held.grow_old()
            self._recall.keep_open()
            forgotten = self._recall.forget(self._most_remembered)
        for load in turn.loads:
            self._shipping.send(load)
        if turn.rows:
            pa.default_memory_pool().release_unused()
        result = memory_result(
            self.config, turn, new, open_count=self._recall.open_count, seconds=time.monotonic() - began
        )
        if result.committed:
            self._standing = self._standing.next(turn.judging)
        result = replace(result, forgotten=forgotten, lost=self._lost(lost))
        remarks = remarks_of(turn, result, self.config, self._most_remembered, everything=everything)
        return replace(result, remarks=tuple(remarks)), self._standing.position(self.policies.fingerprint, now_us)

    def _judging(self, now_us: int) -> Judging:
        config, before = self.config, self._standing
        made = Made(config.name, MEMORY, None, None, self.policies.fingerprint, before.cycle + 1, now_us)
        return Judging(
            connection=self._recall.connection,
            summary=self._summary,
            readiness=Readiness.of(config, self.policies),
            policies=self.policies,
            window_seconds=config.window_seconds,
            claims=self._claims,
            made=made,
            since_us=before.until_us,
            until_us=horizon(self.policies, config.window_seconds, now_us, before.until_us),
            limits=dict(before.limits),
        )

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """What is known and what is held change together, or stay as they are."""
        held, connection = self._held.state(), self._recall.connection
        connection.execute("BEGIN")
        try:
            yield
            self._recall.clear()
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            self._held.restore(held)
            raise

    def _publish(self, result: MemoryResult, position: Position) -> MemoryResult:
        if self._log is not None and result.committed:
            snapshot, trouble = self._log.write(result.decisions, position)
            remarks = (*result.remarks, trouble) if trouble else result.remarks
            result = replace(result, snapshot=str(snapshot or ""), remarks=remarks)
        metrics.count_cycle(result)
        count_memory(result)
        self._tell(result)
        return result

    def _lost(self, before: Mapping[str, int] | None = None) -> dict[str, int]:
        """How many spans could not be held for each destination, since before."""
        if before is None:
            return {one.destination.name: one.lost_spans for one in self.couriers}
        return {name: spans - before[name] for name, spans in self._lost().items() if spans > before[name]}
