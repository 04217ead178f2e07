"""The live generator: the shop's telemetry of this very moment, sent to a receiver at a steady rate."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import randbits
from typing import TYPE_CHECKING, TypeAlias

from neve.demo.door import Door
from neve.demo.interval import SECOND
from neve.demo.tape import Tape
from neve.model.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.demo.reel import Reel

SALT_BITS = 31
REFUSALS_KEPT = 20  # words of refusals; all of them are counted

Told: TypeAlias = Callable[[Signal, int], None]
"""Who wants to know of each message that was acknowledged: its signal and its number on the tape."""


@dataclass
class Sent:
    """What was sent so far."""

    records: dict[Signal, int] = field(default_factory=lambda: dict.fromkeys(Signal, 0))
    messages: int = 0
    retries: int = 0
    refused: int = 0
    refusals: list[str] = field(default_factory=list)


class Live:
    """A thread for each signal. What is not acknowledged is sent again, unchanged, until it is.

    While a receiver is away nothing is left out: records keep the times that they have on the tape and go out late.
    """

    def __init__(self, reel: Reel, addresses: Sequence[str], told: Told = lambda _signal, _number: None) -> None:
        self.tape = Tape(reel, time.time_ns(), randbits(SALT_BITS))
        self.sent = Sent()
        self._doors = {signal: Door(addresses) for signal in Signal}
        self._told = told
        self._changing = threading.Lock()
        self._ending = threading.Event()  # no further message is begun
        self._given_up = threading.Event()  # nor is one sent again
        self._threads = [
            threading.Thread(target=self._send_all, args=(signal,), name=f"live {signal}", daemon=True)
            for signal in Signal
        ]

    def start(self) -> None:
        """Begin to send."""
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 5.0) -> bool:
        """Send no more; whether all that was sent was acknowledged within this time."""
        self._ending.set()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        finished = not any(thread.is_alive() for thread in self._threads)
        self._given_up.set()
        return finished

    def _send_all(self, signal: Signal) -> None:
        door = self._doors[signal]
        try:
            for number in itertools.count():
                wait_seconds = (self.tape.due(signal, number) - time.time_ns()) / SECOND
                if self._ending.wait(max(0.0, wait_seconds)):
                    return
                self._deliver(door, signal, number)
        finally:
            door.close()

    def _deliver(self, door: Door, signal: Signal, number: int) -> None:
        message = self.tape.message(signal, number)
        while not self._given_up.is_set():
            answer = door.send(signal, message)
            if answer.acknowledged:
                self._acknowledged(signal, number)
                return
            with self._changing:
                if answer.refused:
                    self.sent.refused += 1
                    self.sent.refusals = [*self.sent.refusals, f"{signal}: {answer.refused}"][-REFUSALS_KEPT:]
                    return
                self.sent.retries += 1
            self._given_up.wait(answer.pause_seconds)

    def _acknowledged(self, signal: Signal, number: int) -> None:
        with self._changing:
            self.sent.messages += 1
            self.sent.records[signal] += self.tape.records(signal, number)
        self._told(signal, number)
