"""A bus in memory, the double of tests that need no broker. It holds the contract but for what dies with a process."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.state.bus import Message, check_subscription, encode_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self


@dataclass
class MemoryBus:
    """Topics as lists, and the position and the holder of each group in each topic."""

    topics: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    positions: dict[tuple[str, str], int] = field(default_factory=dict)
    holders: dict[tuple[str, str], MemoryReader] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def publish(self, topic: str, messages: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        """Append messages."""
        texts = encode_messages(topic, messages)
        with self.changed:
            self.topics.setdefault(topic, []).extend(texts)
            self.changed.notify_all()

    def reader(self, group: str, topics: Sequence[str]) -> MemoryReader:
        """Return a reader."""
        check_subscription(group, topics)
        return MemoryReader(self, group, topics)

    def close(self) -> None:
        """Nothing is open."""


class MemoryReader:
    """A reader that holds a topic from its first message until it is closed."""

    def __init__(self, bus: MemoryBus, group: str, topics: Sequence[str]) -> None:
        self._bus, self._group, self._topics = bus, group, topics
        self._taken: dict[str, int] = {}

    def take(self, limit: int, wait_seconds: float = 0.0) -> list[Message]:
        """Return the next messages."""
        until = time.monotonic() + wait_seconds
        with self._bus.changed:
            while not (found := self._next(limit)) and (left := until - time.monotonic()) > 0:
                self._bus.changed.wait(left)
        return found

    def acknowledge(self) -> None:
        """Acknowledge what was taken."""
        with self._bus.changed:
            self._bus.positions.update({(self._group, topic): end for topic, end in self._taken.items()})

    def lag(self) -> dict[str, int]:
        """Return what was not acknowledged."""
        with self._bus.changed:
            return {topic: len(self._bus.topics.get(topic, ())) - self._begin(topic) for topic in self._topics}

    def close(self) -> None:
        """Leave the group."""
        with self._bus.changed:
            self._taken.clear()
            for topic in self._topics:
                if self._bus.holders.get((self._group, topic)) is self:
                    del self._bus.holders[self._group, topic]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next(self, limit: int) -> list[Message]:
        found: list[Message] = []
        for topic in self._topics:
            messages = self._bus.topics.get(topic, [])
            begin = self._taken.get(topic, self._begin(topic))
            end = min(len(messages), begin + limit - len(found))
            if end <= begin or self._bus.holders.setdefault((self._group, topic), self) is not self:
                continue
            found += [
                Message(topic, key, json.loads(text), f"{topic}/{number}")
                for number, (key, text) in enumerate(messages[begin:end], start=begin)
            ]
            self._taken[topic] = end
        return found

    def _begin(self, topic: str) -> int:
        return self._bus.positions.get((self._group, topic), 0)
