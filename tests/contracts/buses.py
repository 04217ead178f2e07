"""Buses: the behaviours of `test_bus.py` hold for each."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from neve.state.config import BusConfig
from neve.state.kafka_bus import KafkaBus
from tests.contracts.memory_bus import MemoryBus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.state.bus import Bus, Message, Reader

PATIENCE = 600.0
_numbers = itertools.count()
# For a process of its own: what `Place.open` does here.
OPENED = """
import json
import sys
from neve.state.config import BusConfig
from neve.state.kafka_bus import KafkaBus
bus = KafkaBus(BusConfig(**json.loads(sys.argv[1])))
"""


@dataclass(frozen=True)
class Place:
    """Where a bus is that nobody has used yet; `quick` is the shortest time of silence that it knows."""

    config: BusConfig
    quick: float
    memory: MemoryBus | None = None
    opened: list[Bus] = field(default_factory=list)

    def open(self) -> Bus:
        """A bus with connections of its own."""
        bus: Bus = self.memory or KafkaBus(self.config)
        self.opened.append(bus)
        return bus

    def impatient(self) -> Place:
        """The same, but a reader that is silent is soon followed by another one."""
        options = {"max.poll.interval.ms": str(int(self.quick * 1000))}
        return replace(self, config=self.config.model_copy(update={"hold_seconds": self.quick, "options": options}))

    def outlive_processes(self) -> None:
        """Skip a test of what happens when a process dies, on a bus that dies with it."""
        if self.memory is not None:
            pytest.skip("it is in the memory of one process")

    @property
    def argument(self) -> str:
        """In words, for a process of its own."""
        return json.dumps(self.config.model_dump())


def kafka_place(part: Any) -> Place:
    """Topics of its own on the session's broker, in two partitions."""
    config = BusConfig(
        kind="kafka", bootstrap_servers=part.bootstrap, prefix=f"test{next(_numbers)}.", partitions=2, hold_seconds=6
    )
    return Place(config, 6.0)


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.parts)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Where a bus is."""
    is_memory = request.param == "memory"
    found = Place(BusConfig(), 1.0, MemoryBus()) if is_memory else kafka_place(request.getfixturevalue("kafka"))
    yield found
    for bus in found.opened:
        bus.close()


@pytest.fixture
def bus(place: Place) -> Bus:
    """A bus, closed at the end."""
    return place.open()


def taken(reader: Reader, count: int) -> list[Message]:
    """So many messages, however many takings they need."""
    found: list[Message] = []
    until = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < until:
        found += reader.take(count - len(found), 0.5)
    return found


def numbers(messages: list[Message]) -> list[object]:
    """What the messages that `numbered` made say."""
    return [message.value["n"] for message in messages]


def numbered(*values: int, key: str = "k") -> list[tuple[str, dict[str, object]]]:
    """Messages of one key."""
    return [(key, {"n": value}) for value in values]
