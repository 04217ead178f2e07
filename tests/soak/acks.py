"""What the sender was told: which messages were acknowledged, and when the last one was."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from neve.model.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.demo.live import Playback
    from tests.soak.tally import Keys


class Acks:
    """The numbers of messages on the tape by signal; threads add to them."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._numbers: dict[Signal, list[int]] = {signal: [] for signal in Signal}
        self._last = dict.fromkeys(Signal, 0.0)

    def add(self, signal: Signal, number: int) -> None:
        """A message was acknowledged."""
        with self._changing:
            self._numbers[signal].append(number)
            self._last[signal] = time.time()

    @property
    def oldest_last(self) -> float:
        """Since when every signal was acknowledged at least once, as Unix seconds."""
        return min(self._last.values())

    def keys(self, tape: Playback, signal: Signal) -> Iterator[Keys]:
        """The keys of all records of a signal that were acknowledged."""
        for number in self._numbers[signal]:
            yield tape.keys(signal, number)
