"""Topics of OTLP messages as a feed: what is committed to the group is decided, and delivered where kept.

A process that dies reads again what it held. So every kept trace arrives at least once; a trace may be decided twice.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import structlog

from neve.errors import EnvironmentFault
from neve.otlp import Intake
from neve.tail.memory.intake import tell_refused
from neve.tail.memory.offsets import Offsets

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Consumer, Message

    from neve.tail.memory.intake import Decode

MOST_MESSAGES = 500  # that are read at once
WAIT_SECONDS = 0.5
COMMIT_SECONDS = 2.0
QUEUED_KB = 16 * 1024  # that the client reads ahead: memory besides tail.buffer_mb

log = structlog.get_logger("neve.tail")


class Taker(Protocol):
    """Who takes rows of the table `spans` and says when they are done."""

    @property
    def is_congested(self) -> bool:
        """Whether it would rather have no more now."""

    def feed(self, rows: pa.RecordBatch, done: Callable[[], None] | None = None) -> None:
        """Hold some rows."""


@dataclass(frozen=True)
class KafkaSource:
    """Where messages are read from; `topics` tells the organization of each."""

    selector: str
    bootstrap_servers: str
    topics: Mapping[str, str]
    starting: str = "earliest"
    max_future_nanos: int = 0
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The group whose offsets are committed: selectors of one name share the topics."""
        return f"neve-tail-{self.selector}"


class KafkaFeed:
    """Reads topics in one thread: `read`, then `close` when all that was read is done."""

    def __init__(self, source: KafkaSource, selector: Taker, decode: Decode) -> None:
        self._source, self._selector, self._decode = source, selector, decode
        self._offsets = Offsets()
        self._committed: dict[tuple[str, int], int] = {}
        self._committed_at = 0.0
        self._paused = False
        self._consumer = _connect(source)
        self._consumer.subscribe(list(source.topics), on_revoke=self._revoked, on_lost=self._revoked)

    def read(self, stop: threading.Event) -> None:
        """Read until told to stop; a selector that has too much waiting for its destinations is given time."""
        while not stop.is_set():
            self._breathe()
            self._take([one for one in self._consumer.consume(MOST_MESSAGES, WAIT_SECONDS) if _is_message(one)])
            if time.monotonic() - self._committed_at > COMMIT_SECONDS:
                self.commit()

    def commit(self) -> None:
        """Tell the brokers what need not be read again; where that fails, it is told the next time."""
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

        self._committed_at = time.monotonic()
        told = self._offsets.committable()
        news = {partition: offset for partition, offset in told.items() if self._committed.get(partition) != offset}
        if not news:
            return
        try:
            self._consumer.commit(
                offsets=[TopicPartition(*partition, offset) for partition, offset in news.items()], asynchronous=False
            )
        except KafkaException as error:
            log.warning("offsets can't be committed", group=self._source.group, error=str(error))
            return
        self._committed |= news

    def close(self) -> None:
        """Commit what is done by now, and leave the group."""
        self.commit()
        self._consumer.close()

    def _breathe(self) -> None:
        if self._selector.is_congested == self._paused:
            return
        self._paused = not self._paused
        act = self._consumer.pause if self._paused else self._consumer.resume
        act(self._consumer.assignment())
        log.info("reading pauses" if self._paused else "reading goes on", group=self._source.group)

    def _take(self, messages: Sequence[Message]) -> None:
        lots: dict[tuple[str, int], list[Message]] = {}
        for message in messages:
            lots.setdefault((str(message.topic()), int(message.partition() or 0)), []).append(message)
        for (topic, partition), lot in lots.items():
            begin, end = int(lot[0].offset() or 0), int(lot[-1].offset() or 0) + 1
            done = self._offsets.begin((topic, partition), begin, end)
            values = [bytes(value) for message in lot if (value := message.value()) is not None]
            if not values:
                done()
                continue
            intake = Intake(self._source.topics[topic], time.time_ns(), self._source.max_future_nanos)
            decoded = self._decode(pa.array(values, pa.binary()), intake)
            tell_refused(self._source.selector, f"kafka:{topic}/{partition}", decoded.rejected)
            self._selector.feed(decoded.batch, done)

    def _revoked(self, _consumer: Consumer, partitions: Sequence[Any]) -> None:
        """Others read these from what was committed last: what is done until now is committed first."""
        self.commit()
        gone = [(one.topic, one.partition) for one in partitions]
        self._offsets.forget(gone)
        self._committed = {partition: offset for partition, offset in self._committed.items() if partition not in gone}
        self._paused = False


def _connect(source: KafkaSource) -> Consumer:
    try:
        from confluent_kafka import Consumer  # noqa: PLC0415 - an extra
    except ImportError:
        raise EnvironmentFault(
            "reading Kafka into memory needs the package confluent-kafka, which is not installed",
            hint="pip install 'neve[kafka]'",
        ) from None
    return Consumer(
        {
            "bootstrap.servers": source.bootstrap_servers,
            "group.id": source.group,
            "auto.offset.reset": source.starting,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "queued.max.messages.kbytes": QUEUED_KB,
            **source.options,
        }
    )


def _is_message(message: Message) -> bool:
    """Whether it is one; what librdkafka says between messages goes to the log."""
    error = message.error()
    if error is not None:
        log.warning("kafka", topic=message.topic(), error=str(error))
    return error is None
