"""Kept traces brought to their destinations: each goes on where it was, and one that is away holds up no other."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.errors import LeaseTaken
from neve.lake.leases import work_under
from neve.tail.export.outbox import CursorMoved, Outbox
from neve.tail.export.port import Delivery
from neve.tail.export.position import Position
from neve.tail.export.pump import PumpResult, pump
from neve.tail.metrics import AWAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lake.documents import Documents
    from neve.tail.cycle_spans import CycleSpans
    from neve.tail.export.outbox import Cursor
    from neve.tail.export.port import Destination
    from neve.tail.kept import Kept

LEASE = "tail-export"


@dataclass(frozen=True)
class Exporter:
    """Brings what a selector kept to all destinations; `steal` takes the leases of a process that is known to be dead.

    A destination has one process at a time among all of the selector's name.
    """

    kept: Kept
    documents: Documents
    destinations: Sequence[Destination]
    steal: bool = False

    def apart(self) -> list[Exporter]:
        """One for each destination, so that none waits for another."""
        return [replace(self, destinations=(one,)) for one in self.destinations]

    def close(self) -> None:
        """Let go of connections; deliveries that wait for their next attempt give up."""
        for one in self.destinations:
            one.close()

    def run(self) -> list[PumpResult]:
        """Bring everything that is not delivered yet; what became of it for each destination."""
        outbox = Outbox(self.documents, self.kept.config.name)
        with ExitStack() as leases:
            # Cursors are read under the lease: what another process brought just before is not brought again.
            notes = [self._take(leases, one.name) for one in self.destinations]
            turns = [
                Turn(one, outbox.cursor(one.name), note) for one, note in zip(self.destinations, notes, strict=True)
            ]
            self._bring([turn for turn in turns if not turn.ended])
        for turn in turns:
            if turn.result.away is not None:
                AWAY.labels(self.kept.config.name, turn.result.destination).inc()
        return [turn.result for turn in turns]

    def _take(self, leases: ExitStack, destination: str) -> str:
        """Hold a destination's lease; who has it where that is another one."""
        config = self.kept.config
        name, seconds = f"{LEASE}:{config.name}:{destination}", config.lease_seconds
        try:
            leases.enter_context(work_under(self.documents, name, seconds=seconds, what="export", steal=self.steal))
        except LeaseTaken as error:
            return error.message
        return ""

    def _bring(self, turns: Sequence[Turn]) -> None:
        if not turns:
            return
        for cycle in self.kept.cycles(min(turn.done_until for turn in turns)):
            waiting = [turn for turn in turns if not turn.ended and turn.done_until < cycle]
            if not waiting:
                continue
            for spans in self.kept.cycle(cycle, min(turn.begin(cycle) for turn in waiting)):
                for turn in waiting:
                    turn.bring(spans)
                if all(turn.ended for turn in waiting):
                    break
            for turn in waiting:
                turn.finish(cycle)


class Turn:
    """One destination's share of a run."""

    def __init__(self, destination: Destination, cursor: Cursor, note: str = "") -> None:
        self._destination, self._cursor = destination, cursor
        self.result = PumpResult(destination.name, cursor.position, 0, Delivery(), note=note)

    @property
    def done_until(self) -> int:
        """The last cycle of which everything was delivered."""
        position = self._cursor.position
        return position.sequence - 1 if position else 0

    @property
    def ended(self) -> bool:
        """Whether the destination takes nothing for now, or another process brings it."""
        return self.result.away is not None or bool(self.result.note)

    def begin(self, cycle: int) -> str:
        """The trace of a cycle that it is at."""
        position = self._cursor.position
        return position.trace_id if position and position.sequence == cycle else ""

    def bring(self, spans: CycleSpans) -> None:
        """Bring what a cycle kept, or some of it."""
        if self.ended:
            return
        try:
            got = pump(self._destination, self._cursor, spans.batches(self._cursor.position))
        except CursorMoved as error:
            self.result = replace(self.result, note=error.message)
            return
        self.result = PumpResult(
            got.destination,
            got.position,
            self.result.batches + got.batches,
            self.result.delivery + got.delivery,
            got.away,
            self.result.missing + spans.missing,
        )

    def finish(self, cycle: int) -> None:
        """All that a cycle kept was brought, unless the turn ended before."""
        if self.ended:
            return
        try:
            self._cursor.move(Position(cycle + 1))
        except CursorMoved as error:
            self.result = replace(self.result, note=error.message)
            return
        self.result = replace(self.result, position=self._cursor.position)
