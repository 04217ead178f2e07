"""From a topic of Kafka through memory to a destination, with a broker."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from neve.app.settings import Settings
from neve.app.tail_memory import build_kafka_feed, build_memory_selector, run_memory
from neve.errors import ConfigError
from tests.tail.export.batches import spans_of
from tests.tail.export.servers import Answer, http_server
from tests.telemetry import traces

if TYPE_CHECKING:
    from pathlib import Path

    from tests.parts.kafka import Kafka
    from tests.tail.export.servers import HttpServer


class Topic:
    """A topic of its own for a test, with two partitions."""

    def __init__(self, address: str) -> None:
        self.name, self.address = f"spans.{uuid4().hex[:8]}", address
        admin = AdminClient({"bootstrap.servers": address})
        for future in admin.create_topics([NewTopic(self.name, num_partitions=2, replication_factor=1)]).values():
            future.result(20)
        self._producer = Producer({"bootstrap.servers": address})

    def send(self, *values: bytes | None) -> None:
        """Messages, over both partitions in turns."""
        for place, value in enumerate(values):
            self._producer.produce(self.name, value, partition=place % 2)
        assert self._producer.flush(20) == 0

    def committed(self, group: str) -> list[int]:
        """Where the group goes on in each partition."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group})
        places = consumer.committed([TopicPartition(self.name, number) for number in range(2)], timeout=600)
        consumer.close()
        return [place.offset for place in places]

    def settings(self, folder: Path, there: HttpServer, **tail: Any) -> Settings:
        """A selector that reads the topic, and tries a destination once."""
        destination = {"name": "there", "kind": "otlp_http", "endpoint": there.endpoint, "retry_seconds": 0}
        quick = {"inactivity_seconds": 0.3, "interval_seconds": 0.1, "percentage": 100, "storage": "memory"}
        return Settings.model_validate(
            {
                "organization": "acme",
                "state": {"path": str(folder / "state.db")},
                "receiver": {"drain_seconds": 2},
                "kafka": {
                    "bootstrap_servers": self.address,
                    "topics": [{"topic": self.name, "signal": "traces"}],
                    "options": {"kafka.session.timeout.ms": "6000", "minPartitions": "4"},
                },
                "tail": {
                    **quick,
                    "name": self.name.replace(".", "-"),
                    "export": {"destinations": [destination]},
                    **tail,
                },
            }
        )


@pytest.fixture
def topic(kafka: Kafka) -> Topic:
    """A new topic."""
    return Topic(kafka.bootstrap)


def run_until(settings: Settings, condition: Any) -> Any:
    """Run a selector until something is so; what it did."""
    stop, runs = threading.Event(), []

    def work() -> None:
        runs.append(run_memory(settings, feeds=("kafka",), stop=stop, tell=lambda _result: None))

    thread = threading.Thread(target=work)
    thread.start()
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    stop.set()
    thread.join(600)
    return runs[0]


def delivered(there: HttpServer) -> set[bytes]:
    """The spans that arrived."""
    return set(spans_of(*(request.body for request in there.taken)))


@pytest.mark.parts
def test_messages_are_committed_when_delivered(tmp_path: Path, topic: Topic) -> None:
    """A destination that is away holds offsets back; who starts again reads what it missed, and no more than that."""
    topic.send(traces(4), traces(4, first=4), b"\xff\xff", None)
    with http_server() as there:
        settings = topic.settings(tmp_path, there)
        group = f"neve-tail-{settings.tail.name}"
        run = run_until(settings, lambda: len(delivered(there)) == 8)
        assert (run.decided.traces, run.undelivered) == (8, {})
        assert topic.committed(group) == [2, 2]

        topic.send(traces(3, first=20))
        there.script = [Answer(503)] * 100
        asked = len(there.asked)
        run = run_until(settings, lambda: len(there.asked) > asked)
        assert run.undelivered == {"there": 3}
        assert topic.committed(group) == [2, 2]

        there.script = []
        run = run_until(settings, lambda: len(delivered(there)) == 11)
        assert (run.decided.traces, run.spans) == (3, 3)
        assert topic.committed(group) == [3, 2]


def test_topics_that_can_not_be_read(tmp_path: Path) -> None:
    """Are refused before anything is connected to."""
    for topics, words in (
        ([{"topic": "a", "signal": "logs"}], "no topic of traces"),
        ([{"topic": "a", "signal": "traces", "encoding": "otlp_json"}], "a is otlp_json, expected otlp_proto"),
    ):
        settings = Settings.model_validate({"kafka": {"topics": topics}, "state": {"path": str(tmp_path / "s.db")}})
        with pytest.raises(ConfigError, match=words):
            build_kafka_feed(settings, build_memory_selector(settings))
    with pytest.raises(ConfigError, match="has no feed"):
        run_memory(settings)
