"""The bus in the state store: every order of events, holes that must not be skipped, and what is removed when."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event, insert, select, update
from structlog.testing import capture_logs

from neve.errors import LakeError, LeaseLost
from neve.lake.bus_config import BusConfig
from neve.lake.sql_bus import SqlBus
from neve.lake.sql_bus_tables import HOLDS, MESSAGES, TOPICS, BusTables, now_of
from neve.lake.sql_bus_trim import PATIENCE, trim
from neve.lake.state import State
from neve.lake.state_config import StateConfig
from tests.contracts.buses import numbered, numbers
from tests.contracts.stores import postgres as postgres_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from neve.lake.sql_bus_reader import SqlReader
    from tests.parts.postgres import Postgres

NAMES = ("a", "b")
KEEP = 1000.0


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    """A state store in a file."""
    found = State(StateConfig(path=str(tmp_path / "state.db")))
    yield found
    found.close()


@pytest.fixture
def bus(state: State) -> SqlBus:
    """Its bus."""
    return SqlBus(state, BusConfig(keep_seconds=KEEP))


def age(state: State, topic: str, *positions: int, seconds: float) -> None:
    """Let messages have been published so long ago."""
    with state.writing(MESSAGES) as connection:
        these = (MESSAGES.c.topic == topic) & MESSAGES.c.position.in_(positions)
        connection.execute(update(MESSAGES).where(these).values(at=now_of(connection) - timedelta(seconds=seconds)))


def kept(state: State) -> list[tuple[str, int]]:
    """Which messages are there."""
    with state.reading(MESSAGES) as connection:
        rows = connection.execute(select(MESSAGES.c.topic, MESSAGES.c.position).order_by(*MESSAGES.primary_key))
        return [(row.topic, row.position) for row in rows]


def deal(bus: SqlBus, group: str, topic: str, count: int) -> None:
    """Let a group deal with some messages."""
    with bus.reader(group, [topic]) as reader:
        assert len(reader.take(count)) == count
        reader.done()


class Model:
    """What one reader should know: where it goes on in each topic, and whether it lost something that it took."""

    def __init__(self, reader: SqlReader) -> None:
        self.reader = reader
        self.done: dict[str, int] = {}
        self.taken: dict[str, int] = {}
        self.lost = False

    def lose(self, topic: str) -> None:
        """Another one has it."""
        self.lost |= self.taken[topic] > self.done[topic]
        del self.taken[topic], self.done[topic]


class History:
    """Three readers of one group that take, deal, fall silent and go, in any order, against a plain model of them."""

    def __init__(self, file: Path) -> None:
        self.state = State(StateConfig(path=str(file)))
        event.listen(self.state.engine, "connect", lambda raw, _record: raw.execute("PRAGMA synchronous = OFF"))
        self.bus = SqlBus(self.state, BusConfig(hold_seconds=600))
        self.ends = dict.fromkeys(NAMES, 0)
        self.dealt = dict.fromkeys(NAMES, 0)
        self.owners: dict[str, Model | None] = dict.fromkeys(NAMES)
        self.models = [Model(self.bus.reader("g", NAMES)) for _ in range(3)]

    def publish(self, number: int) -> None:
        """Some more messages."""
        topic, count = NAMES[number % 2], 1 + number % 4
        self.bus.publish(topic, numbered(*range(self.ends[topic] + 1, self.ends[topic] + count + 1)))
        self.ends[topic] += count

    def take(self, number: int, silent: tuple[str, ...] = ()) -> None:
        """What follows, of the topics that are its own or free, as those are whose reader was silent."""
        model, limit = self.models[number % 3], 1 + number % 4
        with self.state.writing(HOLDS) as connection:
            past = now_of(connection) - timedelta(seconds=1)
            connection.execute(update(HOLDS).where(HOLDS.c.topic.in_(silent)).values(until=past))
        for topic, owner in self.owners.items():
            if topic in model.taken and owner is not model:
                model.lose(topic)
            if topic in silent or owner in {None, model}:
                self.owners[topic] = model
                model.done.setdefault(topic, self.dealt[topic])
                model.taken.setdefault(topic, self.dealt[topic])
        found = model.reader.take(limit)
        for message in found:
            model.taken[message.topic] += 1
            assert message.value["n"] == model.taken[message.topic] == int(message.position)
        left = sum(self.ends[topic] - taken for topic, taken in model.taken.items())
        assert len(found) == limit or left == 0

    def take_over(self, number: int) -> None:
        """The same after a silence of the reader of one topic, or of both."""
        self.take(number, (NAMES[:1], NAMES[1:], NAMES)[number // 4])

    def deal(self, number: int) -> None:
        """It goes through where nothing was lost, and changes nothing otherwise."""
        model = self.models[number % 3]
        moves = {topic: taken for topic, taken in model.taken.items() if taken > model.done[topic]}
        if model.lost or any(self.owners[topic] is not model for topic in moves):
            with pytest.raises(LeaseLost):
                model.reader.done()
            model.taken, model.done, model.lost = {}, {}, False
        else:
            model.reader.done()
            model.done |= moves
            self.dealt |= moves
        lag = model.reader.lag()
        assert lag == {topic: self.ends[topic] - self.dealt[topic] for topic in NAMES}

    def leave(self, number: int) -> None:
        """What it had is free, and another one is there in its place."""
        gone = self.models[number % 3]
        self.models[number % 3] = Model(self.bus.reader("g", NAMES))
        gone.reader.close()
        self.owners |= {topic: None for topic, owner in self.owners.items() if owner is gone}

    def end(self) -> None:
        """Another group gets everything, whatever has happened."""
        with self.bus.reader("fresh", NAMES) as reader:
            found = reader.take(1000)
        for topic, end in self.ends.items():
            assert [m.value["n"] for m in found if m.topic == topic] == list(range(1, end + 1))
        self.state.close()


EVENTS = st.sampled_from([History.publish, History.take, History.take_over, History.deal, History.deal, History.leave])


@settings(max_examples=20)
@given(events=st.lists(st.tuples(EVENTS, st.integers(0, 11)), min_size=30, max_size=30))
def test_every_history_of_a_group_is_in_order_and_complete(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[Callable[[History, int], None], int]]
) -> None:
    """What is taken is what follows, and only its holder moves the group on."""
    history = History(tmp_path_factory.mktemp("history") / "state.db")
    for happen, number in events:
        happen(history, number)
    history.end()


def test_one_of_many_at_once_has_a_topic(bus: SqlBus) -> None:
    """The others get nothing."""
    bus.publish("t", numbered(1))
    start = threading.Barrier(6)

    def run(reader: SqlReader) -> int:
        start.wait()
        return len(reader.take(1))

    readers = [bus.reader("g", ["t"]) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(run, readers)) == [0, 0, 0, 0, 0, 1]


@pytest.mark.parts
def test_a_slow_publisher_leaves_no_hole(postgres: Postgres, tmp_path: Path) -> None:
    """Whoever publishes after it waits for it, so that readers can't pass over what it commits later."""
    state = State(postgres_store(tmp_path, postgres))
    bus, tables = SqlBus(state), BusTables(state)
    bus.publish("t", numbered(1))
    late = threading.Thread(target=bus.publish, args=("t", numbered(3)))
    with bus.reader("g", ["t"]) as reader:
        with tables.writing() as connection:
            connection.execute(update(TOPICS).values(last=TOPICS.c.last + 1))
            late.start()
            assert numbers(reader.take(10)) == [1]
            late.join(0.3)
            assert late.is_alive()
            row = {"topic": "t", "position": 2, "key": "k", "value": '{"n":2}', "at": now_of(connection)}
            connection.execute(insert(MESSAGES).values(row))
        late.join()
        assert numbers(reader.take(10)) == [2, 3]
    bus.close()


def test_a_publication_is_there_as_a_whole_or_not_at_all(bus: SqlBus, state: State) -> None:
    """One that fails leaves no message and no hole."""
    bus.publish("t", numbered(1))
    with state.writing(MESSAGES) as connection:
        row = {"topic": "t", "position": 3, "key": "k", "value": "{}", "at": now_of(connection)}
        connection.execute(insert(MESSAGES).values(row))
    with pytest.raises(LakeError, match="the state store"):
        bus.publish("t", numbered(2, 3))
    bus.publish("t", numbered(2))
    assert numbers(bus.reader("g", ["t"]).take(2)) == [1, 2]


def test_a_topic_without_end_does_not_keep_others_waiting(bus: SqlBus) -> None:
    """Topics take turns in being first."""
    bus.publish("busy", numbered(*range(50)))
    bus.publish("calm", numbered(1))
    with bus.reader("g", ["busy", "calm"]) as reader:
        first_takes = [message.topic for _ in range(2) for message in reader.take(5)]
    assert "calm" in first_takes


def test_a_reader_that_waits_writes_seldom(bus: SqlBus, state: State) -> None:
    """It looks again and again, but takes a hold once."""
    with bus.reader("g", ["t"]) as reader:
        reader.take(1)
        writes: list[float] = []
        held = state.writing

        def counted(table: object) -> object:
            writes.append(time.monotonic())
            return held(table)  # type: ignore[arg-type]

        state.writing = counted  # type: ignore[method-assign, assignment]
        assert reader.take(1, 0.7) == []
        assert writes == []
        del state.writing


def test_what_everyone_has_dealt_with_is_removed_when_it_is_old(bus: SqlBus, state: State) -> None:
    """And not before, and nothing that a group still waits for."""
    bus.publish("t", numbered(1, 2, 3, 4))
    bus.publish("unread", numbered(1, 2))
    deal(bus, "g", "t", 4)
    deal(bus, "h", "t", 1)
    tables = BusTables(state)
    with capture_logs() as logs:
        trim(tables, KEEP)
        assert len(kept(state)) == 6
        age(state, "t", 1, 2, 3, seconds=KEEP + 60)
        age(state, "unread", 1, seconds=KEEP + 60)
        trim(tables, KEEP)
    assert kept(state) == [("t", 2), ("t", 3), ("t", 4), ("unread", 2)]
    assert logs == []
    assert bus.reader("h", ["t"]).lag() == {"t": 3}
    assert bus.reader("new", ["t", "unread"]).lag() == {"t": 3, "unread": 1}
    bus.publish("unread", numbered(3))
    assert numbers(bus.reader("new", ["unread"]).take(5)) == [2, 3]


def test_a_group_that_loses_messages_is_named(bus: SqlBus, state: State) -> None:
    """With how many it lost; it goes on with the oldest that is left."""
    bus.publish("t", numbered(1, 2, 3, 4))
    deal(bus, "slow", "t", 1)
    deal(bus, "quick", "t", 4)
    age(state, "t", 1, 2, 3, seconds=KEEP * PATIENCE + 60)
    with capture_logs() as logs:
        trim(BusTables(state), KEEP)
        trim(BusTables(state), KEEP)
    assert [(entry["group"], entry["topic"], entry["messages"]) for entry in logs] == [("slow", "t", 2)]
    assert kept(state) == [("t", 4)]
    assert numbers(bus.reader("slow", ["t"]).take(5)) == [4]


def test_a_group_that_no_longer_reads_is_forgotten(bus: SqlBus, state: State) -> None:
    """So that it keeps nothing for ever; that it was is said, and should it come back, it begins anew."""
    bus.publish("t", numbered(1, 2, 3))
    deal(bus, "gone", "t", 2)
    with state.writing(HOLDS) as connection:
        connection.execute(update(HOLDS).values(until=now_of(connection) - timedelta(seconds=KEEP * PATIENCE + 60)))
    age(state, "t", 1, seconds=KEEP + 60)
    with capture_logs() as logs:
        trim(BusTables(state), KEEP)
    assert [(entry["event"], entry["group"]) for entry in logs] == [
        ("a group that no longer reads is forgotten", "gone")
    ]
    assert numbers(bus.reader("gone", ["t"]).take(5)) == [2, 3]


def test_old_messages_are_removed_in_passing(state: State) -> None:
    """By whoever publishes, now and then; where that fails, what was published is published."""
    bus = SqlBus(state, BusConfig(keep_seconds=KEEP))
    bus.publish("t", numbered(1))
    age(state, "t", 1, seconds=KEEP + 60)
    bus.publish("t", numbered(2))
    assert kept(state) == [("t", 1), ("t", 2)]
    SqlBus(state, BusConfig(keep_seconds=KEEP)).publish("t", numbered(3))
    assert kept(state) == [("t", 2), ("t", 3)]


def test_who_only_asks_makes_no_store(tmp_path: Path) -> None:
    """The lag of a bus that nobody has used is nothing."""
    file = tmp_path / "state.db"
    with SqlBus(State(StateConfig(path=str(file)))).reader("g", ["t"]) as reader:
        assert reader.lag() == {"t": 0}
    assert not file.exists()
