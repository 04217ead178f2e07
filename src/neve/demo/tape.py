"""The tape: a reel that plays from a moment on, lap after lap, without end. Every record is there once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.demo.pace import GRAIN
from neve.demo.template import ID_BYTES
from neve.model.signals import Signal

if TYPE_CHECKING:
    from neve.demo.body import Body
    from neve.demo.reel import Reel
    from neve.demo.template import Places

PREFIXES = 1 << (8 * ID_BYTES)


@dataclass(frozen=True)
class Tape:
    """Messages by signal and number, from 0; two tapes with another salt share no id."""

    reel: Reel
    began: int
    salt: int

    def due(self, signal: Signal, number: int) -> int:
        """When a message is to be sent, as Unix nanoseconds; none of its records is of a later time."""
        lap, body = self._place(signal, number)
        return self._start(lap) + body.due

    def message(self, signal: Signal, number: int) -> bytes:
        """A message as OTLP protobuf."""
        lap, body = self._place(signal, number)
        return body.template.message(self._start(lap), self._prefix(lap))

    def keys(self, signal: Signal, number: int) -> Places:
        """What tells the records of a message from all others: the time of a log or a point, the id of a span."""
        lap, body = self._place(signal, number)
        if signal is Signal.TRACES:
            return body.keys + (self._prefix(lap) << 8 * ID_BYTES)
        return body.keys + self._start(lap)

    def records(self, signal: Signal, number: int) -> int:
        """How many records a message has."""
        return self._place(signal, number)[1].records

    def _place(self, signal: Signal, number: int) -> tuple[int, Body]:
        bodies = self.reel.bodies[signal]
        lap, place = divmod(number, len(bodies))
        return lap, bodies[place]

    def _start(self, lap: int) -> int:
        return self.began // GRAIN * GRAIN + lap * self.reel.nanos

    def _prefix(self, lap: int) -> int:
        """Below half of all numbers, so that an id is a positive number of 64 bits."""
        return (self.salt + lap) % (PREFIXES // 2)
