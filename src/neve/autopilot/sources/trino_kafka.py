"""Trino's events from a Kafka topic: what is in it now, since a moment."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from neve.autopilot.sources.record import Unreadable
from neve.autopilot.sources.trino_events import logged
from neve.errors import EnvironmentFault, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from confluent_kafka import Consumer, Message

    from neve.autopilot.sources.config import KafkaEventsConfig
    from neve.autopilot.sources.record import Record

WAIT_SECONDS = 10.0  # for an answer of the brokers
TURN_SECONDS = 0.2
MOST_MESSAGES = 500


@dataclass(frozen=True)
class TrinoKafka:
    """A topic; nothing is committed, so that each analysis reads the same days again."""

    config: KafkaEventsConfig
    catalog: str = ""

    @property
    def name(self) -> str:
        """For reports."""
        return f"trino events of topic {self.config.topic}"

    def queries(self, since: datetime) -> Iterator[Record]:
        """Completed queries since a moment, up to the end that the topic has when reading begins."""
        consumer = _connect(self.config)
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra

        try:
            for message in _messages(consumer, self.config.topic, since):
                record = self._record(message)
                if isinstance(record, Unreadable) or (record is not None and record.at >= since):
                    yield record
        except KafkaException as error:
            raise InputError(f"topic {self.config.topic} can't be read: {error}", hint="check the brokers") from error
        finally:
            consumer.close()

    def _record(self, message: Message) -> Record | None:
        where = f"{message.topic()}/{message.partition()}@{message.offset()}"
        try:
            document = json.loads(message.value() or b"")
        except (ValueError, RecursionError):
            return Unreadable("no JSON", where)
        if not isinstance(document, dict):
            return Unreadable("no JSON object", where)
        return logged(document, self.catalog, where)


def _messages(consumer: Consumer, topic: str, since: datetime) -> Iterator[Message]:
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    known = consumer.list_topics(topic, timeout=WAIT_SECONDS).topics[topic]
    if known.error is not None:
        raise InputError(f"topic {topic} can't be read: {known.error}", hint="check autopilot.logs.trino.kafka.topic")
    wanted = [TopicPartition(topic, number, int(since.timestamp() * 1000)) for number in known.partitions]
    starts = consumer.offsets_for_times(wanted, timeout=WAIT_SECONDS)
    ends = {one.partition: consumer.get_watermark_offsets(one, timeout=WAIT_SECONDS)[1] for one in starts}
    left = {one.partition for one in starts if 0 <= one.offset < ends[one.partition]}
    consumer.assign([one for one in starts if one.partition in left])
    heard = time.monotonic()
    while left:
        messages = consumer.consume(MOST_MESSAGES, TURN_SECONDS)
        heard = time.monotonic() if messages else heard
        if time.monotonic() - heard > WAIT_SECONDS:
            raise InputError(f"topic {topic} gave no message for {WAIT_SECONDS:g} seconds before its end")
        for message in messages:
            if message.error() is not None:
                raise InputError(f"topic {topic} can't be read: {message.error()}")
            place, offset = int(message.partition() or 0), int(message.offset() or 0)
            if place in left and offset < ends[place]:
                yield message
            if offset >= ends[place] - 1:
                left.discard(place)


def _connect(config: KafkaEventsConfig) -> Consumer:
    try:
        from confluent_kafka import Consumer  # noqa: PLC0415 - an extra
    except ImportError:
        raise EnvironmentFault(
            "reading events from Kafka needs the package confluent-kafka, which is not installed",
            hint="pip install 'neve[kafka]'",
        ) from None
    settings: dict[str, Any] = {
        "bootstrap.servers": config.bootstrap_servers,
        "group.id": f"neve-autopilot-{uuid4().hex}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        **config.options,
    }
    return Consumer(settings)
