"""Message bus on Kafka: one Kafka topic for each topic of the bus, and Kafka's own consumer groups.

A reader commits offsets only on request of the caller. Messages of other programs that are not valid are skipped.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from neve.errors import LeaseLost
from neve.logger import get_logger
from neve.state.bus import Message, check_subscription, encode_messages
from neve.state.config import check_bus_config
from neve.state.documents import load_document
from neve.state.kafka_client import (
    ANSWER_SECONDS,
    POLL_SECONDS,
    KafkaTopics,
    client_settings,
    make_kafka_error,
    require_kafka,
    wrap_kafka_errors,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
    from confluent_kafka import Message as KafkaMessage

    from neve.state.config import BusConfig


@dataclass(frozen=True)
class MalformedMessage:
    """A message of another program that is not valid."""

    place: str
    why: str


def parse_message(topic: str, found: KafkaMessage) -> Message | MalformedMessage:
    """Parse a Kafka message. A message without a JSON object as value or a text as key is malformed."""
    position = f"{found.partition()}:{found.offset()}"
    place = f"{found.topic()}/{position}"
    key, value = found.key() or b"", found.value()
    if value is None:
        return MalformedMessage(place, "no value")
    try:
        content, name = load_document(_to_bytes(value)), _to_bytes(key).decode()
    except (ValueError, RecursionError):  # neither JSON nor UTF-8
        return MalformedMessage(place, "not JSON")
    return (
        Message(topic, name, content, position)
        if isinstance(content, dict)
        else MalformedMessage(place, "not a JSON object")
    )


def _to_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


PartitionId = tuple[str, int]  # a Kafka topic and a partition number


@dataclass
class ReaderOffsets:
    """Offsets of one reader; `lost` are topics with taken messages that other readers get again."""

    lost: set[str] = field(default_factory=set)
    _expected: dict[PartitionId, int] = field(default_factory=dict)
    _taken: dict[PartitionId, tuple[int, int]] = field(default_factory=dict)

    def begin(self, committed: Mapping[PartitionId, int]) -> None:
        """Set the committed offsets of newly assigned partitions."""
        self._expected |= committed

    def take(self, place: PartitionId, offset: int) -> int:
        """Advance past one message. Return the number of messages before it that expired unread."""
        gone = offset - self._expected.get(place, offset)
        self._expected[place] = offset + 1
        first, _after = self._taken.get(place, (offset, offset))
        self._taken[place] = (first, offset + 1)
        return max(0, gone)

    def revoke(self, places: Iterable[PartitionId]) -> None:
        """Drop partitions that other readers continue from the committed offset."""
        for place in places:
            self._expected.pop(place, None)
            if self._taken.pop(place, None):
                self.lost.add(place[0])

    @property
    def pending_offsets(self) -> dict[PartitionId, int]:
        """The offsets after the messages that were taken and not acknowledged."""
        return {place: after for place, (_first, after) in sorted(self._taken.items())}

    def acknowledge_all(self) -> None:
        """Mark all taken messages as acknowledged."""
        self._taken.clear()

    def rewind(self) -> dict[PartitionId, int]:
        """Discard all unacknowledged messages. Return the offsets to read from again."""
        firsts = {place: first for place, (first, _after) in sorted(self._taken.items())}
        self._expected |= firsts
        self._taken.clear()
        self.lost.clear()
        return firsts


REFRESH_SECONDS = 10.0  # interval at which added partitions are discovered

log = get_logger(__name__)


class KafkaReader:
    """One member of a group. It may get no messages at first, while the group assigns partitions."""

    def __init__(self, config: BusConfig, topics: KafkaTopics, group: str, names: Sequence[str]) -> None:
        self._config, self._topics, self._group = config, topics, group
        self._names = {config.prefix + name: name for name in names}
        self._offsets = ReaderOffsets()
        self._subscribed = False
        self._error: KafkaError | None = None  # last error of the client about the brokers
        self.skipped = 0  # malformed messages

    def take(self, limit: int, wait_seconds: float = 0.0) -> list[Message]:
        """Return the next messages of the assigned partitions, at most `limit`."""
        until = time.monotonic() + wait_seconds
        self._subscribe()
        self._error = None
        found: list[Message] = []
        with wrap_kafka_errors(self._reading, self._config):
            while len(found) < limit:
                left = 0.0 if found else max(0.0, until - time.monotonic())
                message = self._consumer.poll(min(POLL_SECONDS, left))
                if message is not None:
                    found += self._accept(message)
                elif left <= 0:
                    break
        if not found:
            self._raise_fatal_error()
        return found

    def acknowledge(self) -> None:
        """Commit the taken messages. Raises `LeaseLost`, without a commit, if other readers get some of them again."""
        if self._offsets.lost:
            raise self._rewind(self._offsets.lost)
        if self._offsets.pending_offsets:
            self._commit()
            self._offsets.acknowledge_all()

    def lag(self) -> dict[str, int]:
        """Return the number of unacknowledged messages of each topic. This does not join the group."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        lags = dict.fromkeys(sorted(self._names.values()), 0)
        with wrap_kafka_errors(f"read the lag of group {self._group}", self._config):
            known = self._consumer.list_topics(timeout=ANSWER_SECONDS).topics
            partitions = {name: known[name].partitions for name in self._names if name in known}
            places = [TopicPartition(name, number) for name, numbers in partitions.items() for number in numbers]
            for place in self._consumer.committed(places, timeout=ANSWER_SECONDS) if places else ():
                start, end = self._consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
                lags[self._names[place.topic]] += max(0, end - max(place.offset, start))
        return lags

    def close(self) -> None:
        """Leave the group."""
        if "_consumer" in self.__dict__:
            self._consumer.close()
            del self._consumer
        self._subscribed = False
        self._offsets = ReaderOffsets()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    @property
    def _reading(self) -> str:
        return f"read {', '.join(self._names.values())}"

    @cached_property
    def _consumer(self) -> Consumer:
        from confluent_kafka import Consumer  # noqa: PLC0415 - an extra

        own = {
            "group.id": self._config.prefix + self._group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            # All partitions are revoked before they are reassigned, so that no two readers have the same partition.
            "partition.assignment.strategy": "roundrobin",
            "session.timeout.ms": int(self._config.hold_seconds * 1000),
            "topic.metadata.refresh.interval.ms": int(REFRESH_SECONDS * 1000),
            "error_cb": self._on_error,
        }
        with wrap_kafka_errors(self._reading, self._config):
            return Consumer(client_settings(self._config, **own))

    def _subscribe(self) -> None:
        if not self._subscribed:
            self._topics.need(self._names)
            self._consumer.subscribe(
                list(self._names), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
            )
            self._subscribed = True

    def _accept(self, found: KafkaMessage) -> Iterable[Message]:
        """Yield a valid message and record it as taken. Count and log a malformed one."""
        error = found.error()
        if error is not None:
            log.warning("kafka", group=self._group, topic=found.topic(), error=str(error))
            return
        name, partition, offset = str(found.topic()), int(found.partition() or 0), int(found.offset() or 0)
        gone = self._offsets.take((name, partition), offset)
        if gone:
            log.warning(
                "messages expired before a group read them", group=self._group, topic=self._names[name], messages=gone
            )
        message = parse_message(self._names[name], found)
        if isinstance(message, MalformedMessage):
            self.skipped += 1
            log.warning("message skipped", group=self._group, place=message.place, why=message.why, total=self.skipped)
        else:
            yield message

    def _commit(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

        taken = self._offsets.pending_offsets
        offsets = [TopicPartition(*place, after) for place, after in taken.items()]
        try:
            results = self._consumer.commit(offsets=offsets, asynchronous=False)
            failed = [place.error for place in results if place.error is not None]
        except KafkaException as error:
            failed = [error.args[0]]
        if any(error.code() in _lost_member_codes() for error in failed):
            raise self._rewind(name for name, _partition in taken)
        if failed:
            raise make_kafka_error(f"commit the offsets of group {self._group}", self._config, failed[0].str())

    def _rewind(self, names: Iterable[str]) -> LeaseLost:
        """Rewind to the acknowledged offsets, and return the error to raise."""
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

        topics = sorted({self._names[name] for name in names})
        for place, first in self._offsets.rewind().items():
            with suppress(KafkaException):  # revoked: the new owner starts at the committed offset
                self._consumer.seek(TopicPartition(*place, first))
        return LeaseLost(
            f"a reader of group {self._group!r} lost {', '.join(topics)}: its messages are delivered again",
            hint="take fewer messages at once, and acknowledge them before the next ones are taken",
        )

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Set the offsets of newly assigned partitions, so that messages that expired unread are noticed."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        with suppress(KafkaException):  # then expired messages can't be noticed
            places = consumer.committed(partitions, timeout=ANSWER_SECONDS)
            self._offsets.begin({(one.topic, one.partition): one.offset for one in places if one.offset >= 0})

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._offsets.revoke((one.topic, one.partition) for one in partitions)

    def _on_error(self, error: KafkaError) -> None:
        """Remember an error that the client reports besides messages. The client retries by itself."""
        log.warning("kafka", group=self._group, error=error.str())
        self._error = error

    def _raise_fatal_error(self) -> None:
        """Raise `LakeError` if the client reported a fatal error, or that all brokers are down."""
        from confluent_kafka import KafkaError  # noqa: PLC0415

        error = self._error
        if error is not None and (error.fatal() or error.code() == KafkaError._ALL_BROKERS_DOWN):
            raise make_kafka_error(self._reading, self._config, error.str())


def _lost_member_codes() -> set[Any]:
    """Return the error codes of a broker for a client that is no longer a member."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    return {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
    }


PRODUCER_SETTINGS = {
    "enable.idempotence": True,  # a retry neither doubles nor reorders
    "acks": "all",
    "partitioner": "murmur2_random",  # by key as in Java's clients, including the empty key
    "delivery.timeout.ms": 30_000,
}


class KafkaBus:
    """The bus of a Kafka cluster. Callers close their readers."""

    def __init__(self, config: BusConfig) -> None:
        check_bus_config(config)
        require_kafka()
        self._config = config
        self._topics = KafkaTopics(config)
        self._connecting = threading.Lock()
        self._producer: Producer | None = None

    def publish(self, topic: str, messages: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        """Append messages. If some fail, others may be published already, and a retry publishes them twice."""
        texts = encode_messages(topic, messages)
        if not texts:
            return
        name, what = self._config.prefix + topic, f"publish to {topic}"
        self._topics.need([name])
        reports: list[KafkaError | None] = []
        with wrap_kafka_errors(what, self._config):
            producer = self._connect_producer()
            for key, value in texts:
                _produce(producer, name, (key, value), reports)
            while len(reports) < len(texts):  # each gets its report within delivery.timeout.ms
                producer.poll(POLL_SECONDS)
        failed = [error for error in reports if error is not None]
        if failed:
            self._recover(name, failed)
            raise make_kafka_error(
                what, self._config, f"{len(failed)} of {len(texts)} messages failed: {failed[0].str()}"
            )

    def reader(self, group: str, topics: Sequence[str]) -> KafkaReader:
        """Return a reader of some topics. It joins its group at the first `take`."""
        check_subscription(group, topics)
        return KafkaReader(self._config, self._topics, group, topics)

    def close(self) -> None:
        """Close the producer."""
        with self._connecting:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.flush(ANSWER_SECONDS)

    def _connect_producer(self) -> Producer:
        from confluent_kafka import Producer  # noqa: PLC0415 - an extra

        with self._connecting:
            if self._producer is None:
                self._producer = Producer(client_settings(self._config, **PRODUCER_SETTINGS))
            return self._producer

    def _recover(self, name: str, failed: Sequence[KafkaError]) -> None:
        """Reset the state that may have caused the failure before the next attempt."""
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
        except BufferError:  # the client's queue is full: wait until some messages are sent
            producer.poll(POLL_SECONDS)
