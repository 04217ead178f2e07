"""The bus on Kafka: its topics, others' messages, brokers that are away, and a change of readers."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]
from structlog.testing import capture_logs

from neve.app.settings import Settings
from neve.app.wiring import build_bus
from neve.errors import ConfigError, EnvironmentFault, LakeError, LeaseLost
from neve.state.config import BusConfig, check_bus_config
from neve.state.kafka_bus import KafkaBus, ReaderOffsets
from tests.contracts.buses import PATIENCE, numbered, numbers, taken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.parts.kafka import Kafka

NOWHERE = "127.0.0.1:9"
SECRET = "hunter2"  # noqa: S105 - a secret that is not one


@pytest.fixture
def config(kafka: Kafka) -> BusConfig:
    """Topics of its own on the session's broker."""
    return BusConfig(
        kind="kafka", bootstrap_servers=kafka.bootstrap, prefix=f"t{uuid4().hex[:8]}.", partitions=2, keep_seconds=3600
    )


@pytest.fixture
def bus(config: BusConfig) -> Iterator[KafkaBus]:
    """A bus, closed at the end."""
    found = KafkaBus(config)
    yield found
    found.close()


@pytest.mark.parts
def test_a_topic_is_made_with_what_is_configured(bus: KafkaBus, config: BusConfig) -> None:
    """Under its prefix, by who publishes first or by who reads first; one that is there is taken as it is."""
    bus.publish("published", numbered(1))
    with bus.reader("g", ["read"]) as reader:
        reader.take(1)
    admin = AdminClient({"bootstrap.servers": config.bootstrap_servers})
    for topic in ("published", "read"):
        name = config.prefix + topic
        assert len(admin.list_topics(timeout=600).topics[name].partitions) == 2
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = admin.describe_configs([resource])[resource].result(20)
        assert entries["retention.ms"].value == "3600000"
    other = KafkaBus(config.model_copy(update={"partitions": 5}))
    other.publish("published", numbered(2))
    assert other.reader("g", ["published"]).lag() == {"published": 2}
    other.close()


@pytest.mark.parts
def test_others_messages_are_skipped_and_counted(bus: KafkaBus, config: BusConfig) -> None:
    """What is no JSON object, or has no text for a key, stops nobody and is said."""
    bus.publish("t", numbered(1))
    producer = Producer({"bootstrap.servers": config.bootstrap_servers})
    for key, value in ((b"k", b"{"), (b"k", b"[1]"), (b"\xff", b"{}"), (b"k", None), (None, b'{"n":2}')):
        producer.produce(config.prefix + "t", value, key)
    assert producer.flush(20) == 0
    with capture_logs() as logs, bus.reader("g", ["t"]) as reader:
        assert {1, 2} == set(numbers(taken(reader, 2)))
        until = time.monotonic() + PATIENCE
        while reader.skipped < 4 and time.monotonic() < until:
            assert reader.take(1, 0.1) == []
        reader.acknowledge()
        assert reader.lag() == {"t": 0}
    said = [entry for entry in logs if entry["event"] == "message skipped"]
    assert sorted(entry["why"] for entry in said) == ["no value", "not JSON", "not JSON", "not a JSON object"]
    assert said[-1]["total"] == 4
    assert config.prefix + "t/" in said[0]["place"]


@pytest.mark.parts
def test_messages_that_are_gone_are_said(bus: KafkaBus, config: BusConfig) -> None:
    """A group that was away for too long is told how many it lost."""
    bus.publish("t", numbered(1, 2, 3, 4))
    with bus.reader("g", ["t"]) as reader:
        partition = int(taken(reader, 1)[0].position.partition(":")[0])
        reader.acknowledge()
    admin = AdminClient({"bootstrap.servers": config.bootstrap_servers})
    place = TopicPartition(config.prefix + "t", partition, 3)
    admin.delete_records([place])[place].result(20)
    with capture_logs() as logs, bus.reader("g", ["t"]) as reader:
        assert numbers(taken(reader, 1)) == [4]
    lost = [entry for entry in logs if entry["event"].startswith("messages expired")]
    assert [(entry["group"], entry["topic"], entry["messages"]) for entry in lost] == [("g", "t", 2)]


@pytest.mark.parts
def test_a_change_of_readers_gives_back_what_was_taken(bus: KafkaBus) -> None:
    """A reader that takes on without having dealt with what it took is told, and all of it comes again."""
    bus.publish("t", [(str(number), {"n": number}) for number in range(20)])
    with bus.reader("g", ["t"]) as first, bus.reader("g", ["t"]) as second:
        assert len(taken(first, 20)) == 20
        seen: set[object] = set()
        until = time.monotonic() + PATIENCE
        while not seen and time.monotonic() < until:
            seen |= set(numbers(second.take(20, 0.1)))
            first.take(20, 0.1)
        with pytest.raises(LeaseLost, match="a reader of group 'g' lost t: its messages are delivered again"):
            first.acknowledge()
        second.acknowledge()
        while len(seen) < 20 and time.monotonic() < until:
            seen |= set(numbers(first.take(20, 0.1)))
        first.acknowledge()
        assert seen == set(range(20))
        assert first.lag() == {"t": 0}


def test_brokers_that_are_away_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever publishes, reads or asks learns what failed and where, without a secret."""
    for module in ("kafka_client", "kafka_bus"):
        monkeypatch.setattr(f"neve.state.{module}.ANSWER_SECONDS", 0.3)
    options = {"sasl.password": SECRET, "log_level": "0"}
    config = BusConfig(kind="kafka", bootstrap_servers=NOWHERE, options=options)
    bus = KafkaBus(config)
    assert SECRET not in repr(config)
    reader = bus.reader("g", ["t"])
    for use, what in (
        (lambda: bus.publish("t", numbered(1)), "create the topics neve.t"),
        (lambda: reader.take(1), "create the topics neve.t"),
        (reader.lag, "read the lag of group g"),
    ):
        with pytest.raises(LakeError, match=rf"the bus \(kafka {NOWHERE}\) can't {what}: ") as caught:
            use()
        assert SECRET not in str(caught.value)
        assert "bus.bootstrap_servers" in str(caught.value.hint)
    reader.close()
    bus.close()


def test_a_setting_that_there_is_not_is_said() -> None:
    """By its name."""
    reader = KafkaBus(BusConfig(kind="kafka", bootstrap_servers=NOWHERE, options={"no.such": "1"})).reader("g", ["t"])
    with pytest.raises(LakeError, match=r"no\.such"):
        reader.lag()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "bus.bootstrap_servers is empty, expected brokers as host:port with commas"),
        ({"bootstrap_servers": NOWHERE, "hold_seconds": 5}, "bus.hold_seconds is 5, expected 6 or more"),
        (
            {"bootstrap_servers": NOWHERE, "options": {"group.id": SECRET, "acks": 1}},
            "bus.options has acks, group.id, expected none that Neve sets itself",
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start(values: dict[str, object], words: str) -> None:
    """With the key that is to be changed; a bus that is in the state store needs none of it."""
    config = BusConfig.model_validate({"kind": "kafka", **values})
    for use in (check_bus_config, KafkaBus):
        with pytest.raises(ConfigError, match=words) as caught:
            use(config)
        assert SECRET not in str(caught.value)
    check_bus_config(BusConfig())
    check_bus_config(BusConfig(kind="kafka", bootstrap_servers=NOWHERE))


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, with the extra that brings it."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(EnvironmentFault, match="needs the package confluent-kafka") as caught:
        KafkaBus(BusConfig(kind="kafka", bootstrap_servers=NOWHERE))
    assert "neve[kafka]" in str(caught.value.hint)


def test_offsets_tell_what_was_taken_lost_and_gone() -> None:
    """What was revoked is lost, what was not can be read again, and holes are counted."""
    offsets = ReaderOffsets()
    a, b = ("t", 0), ("u", 1)
    offsets.begin({a: 5})
    assert [offsets.take(a, 5), offsets.take(a, 8), offsets.take(b, 3)] == [0, 2, 0]
    assert offsets.pending_offsets == {a: 9, b: 4}
    offsets.revoke([a])
    assert (offsets.lost, offsets.pending_offsets) == ({"t"}, {b: 4})
    assert offsets.rewind() == {b: 3}
    assert (offsets.lost, offsets.pending_offsets) == (set(), {})
    offsets.take(b, 3)
    offsets.acknowledge_all()
    offsets.revoke([b])
    assert (offsets.lost, offsets.rewind()) == (set(), {})


def test_the_bus_of_earlier_releases_is_ignored_with_a_warning() -> None:
    """A configuration that names it goes on; what to do is in the warning, and the default warns of nothing."""
    with capture_logs() as logs:
        assert build_bus(Settings.model_validate({"bus": {"kind": "sql", "keep_seconds": 60}})) is None
    assert [(line["log_level"], line["hint"]) for line in logs] == [("warning", "remove bus.kind")]
    with capture_logs() as logs:
        assert build_bus(Settings()) is None
    assert logs == []
