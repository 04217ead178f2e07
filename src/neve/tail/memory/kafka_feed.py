"""Feed a selector in memory from Kafka topics of OTLP messages.

Offsets are committed up to the first message that is not yet decided, and delivered if kept. A process that dies
reads again what it held: every kept trace arrives at least once, and a trace may be decided twice.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from neve.errors import EnvironmentFault
from neve.logger import get_logger
from neve.otlp import Intake
from neve.tail.memory.receiver_feed import count_rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from confluent_kafka import Consumer, Message

    from neve.tail.memory.receiver_feed import Decode


Partition = tuple[str, int]


@dataclass
class _PartitionProgress:
    """Progress in one partition: the first offsets of unfinished lots of messages, and the `end` after the last lot."""

    end: int = 0
    batches: OrderedDict[int, None] = field(default_factory=OrderedDict)  # first offsets of lots that are not finished


class OffsetTracker:
    """Thread-safe tracker of the offsets of all assigned partitions."""

    def __init__(self) -> None:
        self._read: dict[Partition, _PartitionProgress] = {}
        self._lock = threading.Lock()

    def begin(self, partition: Partition, first: int, end: int) -> Callable[[], None]:
        """Register a lot of messages, `end` exclusive, and return the callback for its completion."""
        with self._lock:
            read = self._read.setdefault(partition, _PartitionProgress())
            read.end = end
            read.batches[first] = None

        def finish() -> None:
            with self._lock:
                read.batches.pop(first, None)

        return finish

    def committable(self) -> dict[Partition, int]:
        """Return the offset of each partition from which a new consumer must read."""
        with self._lock:
            return {partition: next(iter(read.batches), read.end) for partition, read in self._read.items()}

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forget revoked partitions, whose new consumers read the unfinished messages again."""
        with self._lock:
            for partition in partitions:
                self._read.pop(partition, None)


MAX_MESSAGES = 500  # messages per read
WAIT_SECONDS = 0.5
COMMIT_SECONDS = 2.0
PREFETCH_KB = 16 * 1024  # prefetched by the client: memory in addition to tail.buffer_mb

log = get_logger("neve.tail")


class AcknowledgingSink(Protocol):
    """Consumer of rows of the table `spans` that reports their completion."""

    @property
    def is_congested(self) -> bool:
        """True if the sink can't keep up and the feed should pause."""

    def feed(self, rows: pa.RecordBatch, done: Callable[[], None] | None = None) -> None:
        """Buffer some rows."""


@dataclass(frozen=True)
class KafkaSource:
    """Kafka connection of a selector, with the organization of each topic in `topics`."""

    selector: str
    bootstrap_servers: str
    topics: Mapping[str, str]
    starting: str = "earliest"
    max_future_nanos: int = 0
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """Consumer group for committed offsets, by which selectors of one name share the topics."""
        return f"neve-tail-{self.selector}"


class KafkaFeed:
    """Reader of topics in one thread: call `read`, then `close` after all messages are finished."""

    def __init__(self, source: KafkaSource, selector: AcknowledgingSink, decode: Decode) -> None:
        self._source, self._selector, self._decode = source, selector, decode
        self._offsets = OffsetTracker()
        self._committed: dict[tuple[str, int], int] = {}
        self._committed_at = 0.0
        self._paused = False
        self._consumer = _connect(source)
        self._consumer.subscribe(list(source.topics), on_revoke=self._on_revoke, on_lost=self._on_revoke)

    def read(self, stop: threading.Event) -> None:
        """Read until `stop` is set, with pauses while the queues of the selector's destinations are full."""
        while not stop.is_set():
            self._pause_or_resume()
            self._feed([one for one in self._consumer.consume(MAX_MESSAGES, WAIT_SECONDS) if _is_message(one)])
            if time.monotonic() - self._committed_at > COMMIT_SECONDS:
                self.commit()

    def commit(self) -> None:
        """Commit finished offsets, and retry a failed commit at the next call."""
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

        self._committed_at = time.monotonic()
        committable = self._offsets.committable()
        changed = {
            partition: offset for partition, offset in committable.items() if self._committed.get(partition) != offset
        }
        if not changed:
            return
        try:
            self._consumer.commit(
                offsets=[TopicPartition(*partition, offset) for partition, offset in changed.items()],
                asynchronous=False,
            )
        except KafkaException as error:
            log.warning("can't commit offsets", group=self._source.group, error=str(error))
            return
        self._committed |= changed

    def close(self) -> None:
        """Commit finished offsets, and leave the group."""
        self.commit()
        self._consumer.close()

    def _pause_or_resume(self) -> None:
        if self._selector.is_congested == self._paused:
            return
        self._paused = not self._paused
        act = self._consumer.pause if self._paused else self._consumer.resume
        act(self._consumer.assignment())
        log.info("paused reading" if self._paused else "resumed reading", group=self._source.group)

    def _feed(self, messages: Sequence[Message]) -> None:
        batches: dict[tuple[str, int], list[Message]] = {}
        for message in messages:
            batches.setdefault((str(message.topic()), int(message.partition() or 0)), []).append(message)
        for (topic, partition), batch in batches.items():
            begin, end = int(batch[0].offset() or 0), int(batch[-1].offset() or 0) + 1
            done = self._offsets.begin((topic, partition), begin, end)
            values = [bytes(value) for message in batch if (value := message.value()) is not None]
            if not values:
                done()
                continue
            intake = Intake(self._source.topics[topic], time.time_ns(), self._source.max_future_nanos)
            decoded = self._decode(pa.array(values, pa.binary()), intake)
            count_rejected(self._source.selector, f"kafka:{topic}/{partition}", decoded.rejected)
            self._selector.feed(decoded.batch, done)

    def _on_revoke(self, _consumer: Consumer, partitions: Sequence[Any]) -> None:
        """Commit finished offsets before other consumers continue from the last commit, and forget the partitions."""
        self.commit()
        revoked = [(one.topic, one.partition) for one in partitions]
        self._offsets.forget(revoked)
        self._committed = {
            partition: offset for partition, offset in self._committed.items() if partition not in revoked
        }
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
            "queued.max.messages.kbytes": PREFETCH_KB,
            **source.options,
        }
    )


def _is_message(message: Message) -> bool:
    """Return whether this is a message, and log it if it is an event of librdkafka."""
    error = message.error()
    if error is not None:
        log.warning("kafka client error", topic=message.topic(), error=str(error))
    return error is None
