"""Buses: the behaviours of `test_bus.py` hold for each."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from neve.lake.bus_config import BusConfig
from neve.lake.kafka_bus import KafkaBus
from neve.lake.sql_bus import SqlBus
from neve.lake.state import State
from tests.contracts.stores import STORES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.lake.bus import Bus, Message, Reader
    from neve.lake.state_config import StateConfig

PATIENCE = 600.0
_numbers = itertools.count()
# For a process of its own: what `Place.open` does here.
OPENED = """
import json
import sys
from neve.lake.bus_config import BusConfig
from neve.lake.kafka_bus import KafkaBus
from neve.lake.sql_bus import SqlBus
from neve.lake.state import State
from neve.lake.state_config import StateConfig
config, state = json.loads(sys.argv[1])
config = BusConfig(**config)
bus = KafkaBus(config) if config.kind == "kafka" else SqlBus(State(StateConfig(**state)), config)
"""


@dataclass(frozen=True)
class Place:
    """Where a bus is that nobody has used yet; `quick` is the shortest time of silence that it knows."""

    config: BusConfig
    quick: float
    state: StateConfig | None = None
    opened: list[Bus] = field(default_factory=list)

    def open(self) -> Bus:
        """A bus with connections of its own."""
        bus: Bus = SqlBus(State(self.state), self.config) if self.state else KafkaBus(self.config)
        self.opened.append(bus)
        return bus

    def impatient(self) -> Place:
        """The same, but a reader that is silent is soon followed by another one."""
        options = {} if self.state else {"max.poll.interval.ms": str(int(self.quick * 1000))}
        return replace(self, config=self.config.model_copy(update={"hold_seconds": self.quick, "options": options}))

    @property
    def argument(self) -> str:
        """In words, for a process of its own."""
        state = self.state.model_dump(exclude={"password", "documents_password"}) if self.state else {}
        return json.dumps([self.config.model_dump(), state])


def sql_place(name: str, folder: Path, part: Any) -> Place:
    """A state store."""
    return Place(BusConfig(), 1.0, STORES[name](folder, part))


def kafka_place(part: Any) -> Place:
    """Topics of its own on the session's broker, in two partitions."""
    config = BusConfig(
        kind="kafka", bootstrap_servers=part.bootstrap, prefix=f"test{next(_numbers)}.", partitions=2, hold_seconds=6
    )
    return Place(config, 6.0)


@pytest.fixture(params=["sqlite", *(pytest.param(name, marks=pytest.mark.parts) for name in ("postgres", "kafka"))])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Where a bus is."""
    part = None if request.param == "sqlite" else request.getfixturevalue(request.param)
    found = kafka_place(part) if request.param == "kafka" else sql_place(request.param, tmp_path, part)
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
