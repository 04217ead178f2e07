"""The bus on Kafka: a topic there for each topic here, and Kafka's own groups."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from neve.lake.bus_config import check_bus
from neve.lake.bus_text import check_reading, packed
from neve.lake.kafka_client import ANSWER_SECONDS, TURN_SECONDS, client_settings, explained, need_kafka, refused
from neve.lake.kafka_reader import KafkaReader
from neve.lake.kafka_topics import KafkaTopics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from confluent_kafka import KafkaError, Producer

    from neve.lake.bus_config import BusConfig

PRODUCER = {
    "enable.idempotence": True,  # a retry neither doubles nor reorders
    "acks": "all",
    "partitioner": "murmur2_random",  # by the key as Java's clients do, an empty one included
    "delivery.timeout.ms": 30_000,
}


class KafkaBus:
    """The bus of a Kafka cluster. Its readers are closed by whoever has them."""

    def __init__(self, config: BusConfig) -> None:
        check_bus(config)
        need_kafka()
        self._config = config
        self._topics = KafkaTopics(config)
        self._connecting = threading.Lock()
        self._producer: Producer | None = None

    def publish(self, topic: str, messages: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        """Append messages; where some of them fail, others may be there already and come twice when tried again."""
        texts = packed(topic, messages)
        if not texts:
            return
        name, what = self._config.prefix + topic, f"publish to {topic}"
        self._topics.need([name])
        reports: list[KafkaError | None] = []
        with explained(what, self._config):
            producer = self._connected()
            for key, value in texts:
                _produce(producer, name, (key, value), reports)
            while len(reports) < len(texts):  # each gets its report within delivery.timeout.ms
                producer.poll(TURN_SECONDS)
        failed = [error for error in reports if error is not None]
        if failed:
            self._recover(name, failed)
            raise refused(what, self._config, f"{len(failed)} of {len(texts)} messages failed: {failed[0].str()}")

    def reader(self, group: str, topics: Sequence[str]) -> KafkaReader:
        """A reader of some topics; it joins its group when it takes for the first time."""
        check_reading(group, topics)
        return KafkaReader(self._config, self._topics, group, topics)

    def close(self) -> None:
        """Let go of the connection to publish with."""
        with self._connecting:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.flush(ANSWER_SECONDS)

    def _connected(self) -> Producer:
        from confluent_kafka import Producer  # noqa: PLC0415 - an extra

        with self._connecting:
            if self._producer is None:
                self._producer = Producer(client_settings(self._config, **PRODUCER))
            return self._producer

    def _recover(self, name: str, failed: Sequence[KafkaError]) -> None:
        """Begin the next attempt with nothing that may have made this one fail."""
        self._topics.forget(name)
        if any(error.fatal() for error in failed):  # such a client never sends again
            with self._connecting:
                self._producer = None


def _produce(producer: Producer, name: str, message: tuple[str, str], reports: list[KafkaError | None]) -> None:
    key, value = message
    while True:
        try:
            producer.produce(
                name, value.encode(), key.encode(), on_delivery=lambda error, _message: reports.append(error)
            )
            return
        except BufferError:  # the client holds as much as it may: some of it has to go first
            producer.poll(TURN_SECONDS)
