"""What the bus does, whichever one it is."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from neve.errors import LakeError, LeaseLost
from neve.state.bus import MAX_KEY_BYTES, MAX_VALUE_BYTES
from tests.contracts.buses import OPENED, PATIENCE, bus, numbered, numbers, place, taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.state.bus import Bus, Message, Reader
    from tests.contracts.buses import Place

__all__ = ["bus", "place"]

TOPIC, OTHER = "ingest.logs", "rollup.metrics.1m"
TYPICAL: dict[str, object] = {
    "text": "é\0\ud800 \U0001f9ca",
    "number": 1.5,
    "big": 2**70,
    "none": None,
    "deep": {"list": [1, {}, "x"]},
}
DOOMED = """
import time
reader = bus.reader("g", ["ingest.logs"])
while not (found := reader.take(2, 1.0)):
    pass
print(len(found), flush=True)
time.sleep(600)
"""
PUBLISHER = """
import os, signal
bus.publish("ingest.logs", [("k", {"n": n}) for n in range(3)])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_messages_of_a_key_come_in_order(bus: Bus) -> None:
    """Over several publications and takings; keys and topics are those that were published."""
    keys = ("a", "b", "")
    for start in range(0, 12, 3):
        bus.publish(TOPIC, [(key, {"n": n}) for n in range(start, start + 3) for key in keys])
    with bus.reader("g", [TOPIC]) as reader:
        found = [message for _ in range(4) for message in taken(reader, 9)]
    assert {message.topic for message in found} == {TOPIC}
    for key in keys:
        assert [message.value["n"] for message in found if message.key == key] == list(range(12))
    assert len({message.position for message in found}) == len(found) == 36


def test_what_was_not_dealt_with_comes_again(bus: Bus) -> None:
    """To the group's next reader, and what was dealt with does not."""
    bus.publish(TOPIC, numbered(1, 2, 3, 4))
    with bus.reader("g", [TOPIC]) as reader:
        assert numbers(taken(reader, 1)) == [1]
        reader.acknowledge()
        reader.acknowledge()
        assert numbers(taken(reader, 2)) == [2, 3]
    with bus.reader("g", [TOPIC]) as reader:
        assert numbers(taken(reader, 3)) == [2, 3, 4]
        reader.acknowledge()
    with bus.reader("g", [TOPIC]) as reader:
        bus.publish(TOPIC, numbered(5))
        assert numbers(taken(reader, 1)) == [5]


def test_each_group_gets_everything(bus: Bus) -> None:
    """From the oldest message on, whenever it begins."""
    bus.publish(TOPIC, numbered(1, 2))
    bus.publish(OTHER, numbered(3))
    for group in ("g", "h"):
        with bus.reader(group, [TOPIC, OTHER]) as reader:
            assert sorted(map(str, numbers(taken(reader, 3)))) == ["1", "2", "3"]
            reader.acknowledge()
            assert reader.take(1, 0.0) == []


def test_one_member_of_a_group_gets_a_message(place: Place) -> None:
    """While others read, too, each with connections of its own; when one leaves, the others go on."""
    topics = [f"t{number}" for number in range(4)]
    publisher = place.open()
    for topic in topics:
        publisher.publish(topic, numbered(*range(10), key=topic))
    members = [place.open().reader("g", topics) for _ in range(2)]
    seen: Counter[tuple[str, object]] = Counter()
    until = time.monotonic() + PATIENCE
    while len(seen) < 40 and time.monotonic() < until:
        for member in members:
            _read(member, seen, 7)
    members[0].close()
    publisher.publish(topics[0], numbered(10, 11, key="k"))
    while len(seen) < 42 and time.monotonic() < until:
        _read(members[1], seen, 7)
    members[1].close()
    assert len(seen) == 42
    assert set(seen.values()) == {1}


def _read(reader: Reader, seen: Counter[tuple[str, object]], limit: int) -> None:
    seen.update((message.topic, message.value["n"]) for message in reader.take(limit, 0.05))
    reader.acknowledge()


def test_a_killed_reader_is_followed(place: Place) -> None:
    """After some time, by one that gets what the dead one took."""
    place.outlive_processes()
    place = place.impatient()
    bus = place.open()
    bus.publish(TOPIC, numbered(1, 2, 3))
    command = [sys.executable, "-c", OPENED + DOOMED, place.argument]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        process.kill()
    with bus.reader("g", [TOPIC]) as reader:
        assert numbers(taken(reader, 3)) == [1, 2, 3]
        reader.acknowledge()
        assert reader.lag() == {TOPIC: 0}


def test_a_silent_reader_loses_what_it_took(place: Place) -> None:
    """It is told when it says that it has dealt with it, and changes nothing; later it goes on like any other."""
    place.outlive_processes()
    place = place.impatient()
    bus, other = place.open(), place.open()
    bus.publish(TOPIC, numbered(1, 2, 3))
    with bus.reader("g", [TOPIC]) as silent, other.reader("g", [TOPIC]) as follower:
        assert numbers(taken(silent, 2)) == [1, 2]
        assert numbers(taken(follower, 1)) == [1]
        with pytest.raises(LeaseLost, match=f"a reader of group 'g' .*lost {TOPIC}"):
            silent.acknowledge()
        assert follower.lag() == {TOPIC: 3}
        follower.acknowledge()
        follower.close()
        assert numbers(taken(silent, 2)) == [2, 3]
        silent.acknowledge()
        assert silent.lag() == {TOPIC: 0}


def test_lag_is_what_the_group_has_not_dealt_with(bus: Bus) -> None:
    """Topic by topic; whoever asks takes nothing from who reads."""
    watcher = bus.reader("g", [TOPIC, OTHER])
    assert watcher.lag() == {TOPIC: 0, OTHER: 0}
    bus.publish(TOPIC, numbered(1, 2, 3))
    bus.publish(OTHER, numbered(1))
    assert watcher.lag() == {TOPIC: 3, OTHER: 1}
    with bus.reader("g", [TOPIC]) as reader:
        taken(reader, 2)
        assert watcher.lag() == {TOPIC: 3, OTHER: 1}
        reader.acknowledge()
        assert watcher.lag() == {TOPIC: 1, OTHER: 1}
        assert reader.lag() == {TOPIC: 1}
    assert bus.reader("h", [TOPIC]).lag() == {TOPIC: 3}
    watcher.close()


def test_what_was_published_outlives_the_publisher(place: Place) -> None:
    """Which is killed as soon as it has."""
    place.outlive_processes()
    command = [sys.executable, "-c", OPENED + PUBLISHER, place.argument]
    assert subprocess.run(command, check=False, timeout=PATIENCE).returncode == -9
    with place.open().reader("g", [TOPIC]) as reader:
        assert numbers(taken(reader, 3)) == [0, 1, 2]


def test_nothing_is_lost_while_many_publish(place: Place) -> None:
    """Each in order, through a shared bus and through others, while one reads and another takes its place."""
    threads, rounds = 6, 12
    shared = place.open()
    start = threading.Barrier(threads)

    def publish(number: int) -> None:
        own = shared if number % 2 else place.open()
        start.wait()
        for step in range(rounds):
            own.publish(TOPIC, [(str(number), {"n": 2 * step}), (str(number), {"n": 2 * step + 1})])

    found: list[Message] = []
    with ThreadPoolExecutor(threads) as pool:
        work = [pool.submit(publish, number) for number in range(threads)]
        for share in (50, threads * rounds * 2 - 50):
            with shared.reader("g", [TOPIC]) as reader:
                found += taken(reader, share)
                reader.acknowledge()
        assert [future.result() for future in work] == [None] * threads
    for number in range(threads):
        assert [message.value["n"] for message in found if message.key == str(number)] == list(range(2 * rounds))


def test_keys_and_values_come_as_they_were(bus: Bus) -> None:
    """Every text, every JSON value, and large ones."""
    large: dict[str, object] = {"text": "x" * (MAX_VALUE_BYTES - 100)}
    sent: list[tuple[str, dict[str, object]]] = [
        ("", {}),
        ("é \U0001f9ca / :", TYPICAL),
        ("k" * MAX_KEY_BYTES, {"ключ": "значение"}),
        ("large", large),
    ]
    bus.publish(TOPIC, sent)
    with bus.reader("g", [TOPIC]) as reader:
        assert {message.key: message.value for message in taken(reader, 4)} == dict(sent)


def test_nothing_is_published_and_nothing_comes(bus: Bus) -> None:
    """Of no messages, and of a topic that nobody has published to, until someone does."""
    bus.publish(TOPIC, [])
    bus.publish(TOPIC, iter(()))
    with bus.reader("g", [TOPIC, OTHER]) as reader:
        assert reader.take(10) == []
        begun = time.monotonic()
        assert reader.take(10, 0.3) == []
        assert time.monotonic() - begun > 0.25
        reader.acknowledge()
        bus.publish(OTHER, numbered(1))
        assert numbers(taken(reader, 1)) == [1]


def test_a_message_does_not_wait_for_others(bus: Bus) -> None:
    """A reader that would take more and could wait longer has it soon after it was published."""
    with bus.reader("g", [TOPIC]) as reader:
        bus.publish(TOPIC, numbered(1))
        taken(reader, 1)
        threading.Timer(0.2, bus.publish, (TOPIC, numbered(2))).start()
        begun = time.monotonic()
        assert numbers(reader.take(100, PATIENCE)) == [2]
        assert time.monotonic() - begun < PATIENCE


def test_what_not_every_bus_can_carry_is_refused(bus: Bus) -> None:
    """By each of them, before anything is done."""
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: bus.publish("a b", []), "the topic of a message is 'a b', expected 1 to 149 letters"),
        (lambda: bus.publish("", []), "the topic of a message is ''"),
        (lambda: bus.publish(TOPIC, [("a\0", {})]), r"has the key 'a\\x00', expected at most 2000 bytes"),
        (lambda: bus.publish(TOPIC, [("\ud800", {})]), "has the key"),
        (lambda: bus.publish(TOPIC, [("é" * 1001, {})]), "has the key"),
        (lambda: bus.publish(TOPIC, [("a", {"x": "y" * MAX_VALUE_BYTES})]), "has 900008 bytes of JSON"),
        (lambda: bus.reader("g" * 150, [TOPIC]), "the group of a reader is 'ggg"),
        (lambda: bus.reader("g", ["a/b"]), "the topic of a reader is 'a/b'"),
        (lambda: bus.reader("g", []), r"group 'g' reads the topics \[\], expected one or more"),
        (lambda: bus.reader("g", [TOPIC, TOPIC]), "expected one or more, each once"),
    ]
    for use, words in refused:
        with pytest.raises(LakeError, match=words):
            use()
