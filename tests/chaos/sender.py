"""A sender like a real exporter: what is not acknowledged is sent again, unchanged, until it is."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.model.signals import Signal
from tests.chaos.doors import Answer, Doors, Refused
from tests.chaos.messages import message_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.exports import Export

THREADS = 4
PAUSE_SECONDS = 0.1  # before an export is sent again


@dataclass
class Record:
    """What senders know: what was acknowledged, and how often they had to try."""

    numbers: dict[Signal, list[int]] = field(default_factory=lambda: {signal: [] for signal in Signal})
    exports: int = 0
    retried: int = 0
    deaf: int = 0
    answers: Counter[Answer] = field(default_factory=Counter)
    doors: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)

    def acknowledged(self, export: Export, answers: Sequence[Answer]) -> None:
        """Take note of an export, and of what was answered to each attempt."""
        self.numbers[export.signal] += export.numbers
        self.exports += 1
        self.deaf += export.deaf
        self.retried += len(answers) > 1
        self.answers.update(answers)
        self.doors[export.door] += 1

    @property
    def records(self) -> int:
        """How many records were acknowledged."""
        return sum(map(len, self.numbers.values()))


class Sender:
    """Threads that share out exports; they go no further than they are allowed to, so that sending lasts."""

    def __init__(self, exports: Sequence[Export], http_port: int, grpc_port: int, per_second: float) -> None:
        self.record = Record()
        self._exports = exports
        self._ports = (http_port, grpc_port)
        self._pause = THREADS / per_second
        self._next = 0
        self._allowed = 0
        self._hurry = False
        self._ended = False
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._run, name=f"sender-{n}", daemon=True) for n in range(THREADS)]

    def start(self) -> None:
        """Begin to send."""
        for thread in self._threads:
            thread.start()

    def allow(self, share: float) -> None:
        """Let the senders go on to a share of all exports."""
        with self._changed:
            self._allowed = int(share * len(self._exports))
            self._changed.notify_all()

    def finish(self, seconds: float) -> bool:
        """Send the rest without pauses; whether everything was acknowledged in time."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return self.record.exports == len(self._exports) and not self.record.refused

    def abandon(self) -> None:
        """Stop, whatever is left."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _run(self) -> None:
        doors = Doors(*self._ports)
        try:
            while (export := self._take()) is not None:
                self._send(doors, export)
        finally:
            doors.close()

    def _take(self) -> Export | None:
        """The next export, when it is due."""
        with self._changed:
            if not self._hurry:
                self._changed.wait_for(lambda: self._hurry or self._ended, self._pause)
            self._changed.wait_for(lambda: self._next < self._allowed or self._hurry or self._ended)
            if self._ended or self._next == len(self._exports):
                return None
            self._next += 1
            return self._exports[self._next - 1]

    def _send(self, doors: Doors, export: Export) -> None:
        message = message_of(export, time.time_ns())
        answers: list[Answer] = []
        while not self._ended:
            try:
                answers.append(doors.send(export, message, listen=bool(answers) or not export.deaf))
            except Refused as error:
                with self._changed:
                    self.record.refused.append(f"{export.signal} {export.numbers}: {error}")
                return
            if answers[-1] is Answer.ACKNOWLEDGED:
                with self._changed:
                    self.record.acknowledged(export, answers)
                return
            time.sleep(PAUSE_SECONDS)
