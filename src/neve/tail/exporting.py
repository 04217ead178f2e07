"""Kept traces brought to their destinations: each goes on where it was, and one that is away holds up no other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.tail.export.outbox import Outbox
from neve.tail.export.port import Delivery
from neve.tail.export.position import Position
from neve.tail.export.pump import PumpResult, pump

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lake.documents import Documents
    from neve.tail.cycle_spans import CycleSpans
    from neve.tail.export.outbox import Cursor
    from neve.tail.export.port import Destination
    from neve.tail.kept import Kept


@dataclass(frozen=True)
class Exporter:
    """Brings what a selector kept to all destinations."""

    kept: Kept
    documents: Documents
    destinations: Sequence[Destination]

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
        turns = [Turn(destination, outbox.cursor(destination.name)) for destination in self.destinations]
        if not turns:
            return []
        for cycle in self.kept.cycles(min(turn.done_until for turn in turns)):
            waiting = [turn for turn in turns if not turn.is_away and turn.done_until < cycle]
            if not waiting:
                continue
            with self.kept.cycle(cycle) as spans:
                for turn in waiting:
                    turn.bring(spans)
        return [turn.result for turn in turns]


class Turn:
    """One destination's share of a run."""

    def __init__(self, destination: Destination, cursor: Cursor) -> None:
        self._destination, self._cursor = destination, cursor
        self.result = PumpResult(destination.name, cursor.position, 0, Delivery())

    @property
    def done_until(self) -> int:
        """The last cycle of which everything was delivered."""
        position = self._cursor.position
        return position.sequence - 1 if position else 0

    @property
    def is_away(self) -> bool:
        """Whether the destination takes nothing for now."""
        return self.result.away is not None

    def bring(self, spans: CycleSpans) -> None:
        """Bring what a cycle kept."""
        got = pump(self._destination, self._cursor, spans.batches(self._cursor.position))
        self.result = PumpResult(
            got.destination,
            got.position,
            self.result.batches + got.batches,
            self.result.delivery + got.delivery,
            got.away,
        )
        if not self.is_away:
            self._cursor.move(Position(spans.number + 1))
