"""Until where a topic need not be read again: behind the last message before which all are decided and delivered."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Partition = tuple[str, int]


@dataclass
class _Read:
    """What was read of one partition, in lots: each with where it begins; `end` is behind the last."""

    end: int = 0
    lots: OrderedDict[int, None] = field(default_factory=OrderedDict)  # where lots begin that are not done


class Offsets:
    """Of all partitions that are read; threads may use it."""

    def __init__(self) -> None:
        self._read: dict[Partition, _Read] = {}
        self._lock = threading.Lock()

    def begin(self, partition: Partition, first: int, end: int) -> Callable[[], None]:
        """A lot of messages was read, from one offset to before another; call what is returned when it is done."""
        with self._lock:
            read = self._read.setdefault(partition, _Read())
            read.end = end
            read.lots[first] = None

        def done() -> None:
            with self._lock:
                read.lots.pop(first, None)

        return done

    def committable(self) -> dict[Partition, int]:
        """For each partition the offset from which it is to be read again."""
        with self._lock:
            return {partition: next(iter(read.lots), read.end) for partition, read in self._read.items()}

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Others read these now; what is still held of them is theirs to read again."""
        with self._lock:
            for partition in partitions:
                self._read.pop(partition, None)
