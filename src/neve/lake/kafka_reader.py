"""A reader of the bus on Kafka: offsets are committed when the caller says so, and never otherwise."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import structlog

from neve.errors import LeaseLost
from neve.lake.kafka_client import ANSWER_SECONDS, TURN_SECONDS, client_settings, explained, refused
from neve.lake.kafka_message import Malformed, parse
from neve.lake.kafka_offsets import Offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from confluent_kafka import Consumer, KafkaError, TopicPartition
    from confluent_kafka import Message as KafkaMessage

    from neve.lake.bus import Message
    from neve.lake.bus_config import BusConfig
    from neve.lake.kafka_topics import KafkaTopics

REFRESH_SECONDS = 10.0  # after which partitions that were added are found

log = structlog.get_logger(__name__)


class KafkaReader:
    """One member of a group; it may get nothing at first, while the group agrees on who reads what."""

    def __init__(self, config: BusConfig, topics: KafkaTopics, group: str, names: Sequence[str]) -> None:
        self._config, self._topics, self._group = config, topics, group
        self._names = {config.prefix + name: name for name in names}
        self._offsets = Offsets()
        self._subscribed = False
        self._error: KafkaError | None = None  # what the client says of the brokers
        self.skipped = 0  # messages that were none of ours

    def take(self, limit: int, wait_seconds: float = 0.0) -> list[Message]:
        """The next messages of the partitions that the group has given this reader, at most so many."""
        until = time.monotonic() + wait_seconds
        self._subscribe()
        self._error = None
        found: list[Message] = []
        with explained(self._reading, self._config):
            while len(found) < limit:
                left = 0.0 if found else max(0.0, until - time.monotonic())
                message = self._consumer.poll(min(TURN_SECONDS, left))
                if message is not None:
                    found += self._accepted(message)
                elif left <= 0:
                    break
        if not found:
            self._complain()
        return found

    def done(self) -> None:
        """Commit what was taken; `LeaseLost`, and nothing is committed, where others get some of it again."""
        if self._offsets.lost:
            raise self._rewound(self._offsets.lost)
        if self._offsets.taken:
            self._commit()
            self._offsets.deal()

    def lag(self) -> dict[str, int]:
        """How many messages of each topic the group has not dealt with; the group is not joined for this."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        lags = dict.fromkeys(sorted(self._names.values()), 0)
        with explained(f"tell how far group {self._group} is", self._config):
            known = self._consumer.list_topics(timeout=ANSWER_SECONDS).topics
            there = {name: known[name].partitions for name in self._names if name in known}
            places = [TopicPartition(name, number) for name, numbers in there.items() for number in numbers]
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
        self._offsets = Offsets()

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
            # Everything is given back before it is handed out anew, so that nobody reads what another one still has.
            "partition.assignment.strategy": "roundrobin",
            "session.timeout.ms": int(self._config.hold_seconds * 1000),
            "topic.metadata.refresh.interval.ms": int(REFRESH_SECONDS * 1000),
            "error_cb": self._hear,
        }
        with explained(self._reading, self._config):
            return Consumer(client_settings(self._config, **own))

    def _subscribe(self) -> None:
        if not self._subscribed:
            self._topics.need(self._names)
            self._consumer.subscribe(
                list(self._names), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
            self._subscribed = True

    def _accepted(self, found: KafkaMessage) -> Iterable[Message]:
        """A message that is taken from now on; what is none is counted and said."""
        error = found.error()
        if error is not None:
            log.warning("kafka", group=self._group, topic=found.topic(), error=str(error))
            return
        name, partition, offset = str(found.topic()), int(found.partition() or 0), int(found.offset() or 0)
        gone = self._offsets.take((name, partition), offset)
        if gone:
            log.warning(
                "a group lost messages that it never read", group=self._group, topic=self._names[name], messages=gone
            )
        message = parse(self._names[name], found)
        if isinstance(message, Malformed):
            self.skipped += 1
            log.warning("message skipped", group=self._group, place=message.place, why=message.why, total=self.skipped)
        else:
            yield message

    def _commit(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

        taken = self._offsets.taken
        offsets = [TopicPartition(*place, after) for place, after in taken.items()]
        try:
            told = self._consumer.commit(offsets=offsets, asynchronous=False)
            failed = [place.error for place in told if place.error is not None]
        except KafkaException as error:
            failed = [error.args[0]]
        if any(error.code() in _codes_of_losers() for error in failed):
            raise self._rewound(name for name, _partition in taken)
        if failed:
            raise refused(f"commit what group {self._group} has dealt with", self._config, failed[0].str())

    def _rewound(self, names: Iterable[str]) -> LeaseLost:
        """An error after which everything that was taken comes again."""
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

        topics = sorted({self._names[name] for name in names})
        for place, first in self._offsets.rewind().items():
            with suppress(KafkaException):  # no longer ours: whoever has it begins with what was committed
                self._consumer.seek(TopicPartition(*place, first))
        return LeaseLost(
            f"a reader of group {self._group!r} lost {', '.join(topics)}: what it took of it is handed out again",
            hint="take fewer messages at once, and call done before the next ones are taken",
        )

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Partitions that are ours from now on; what is gone of them before the group read it is to be noticed."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        with suppress(KafkaException):  # then nobody can tell
            places = consumer.committed(partitions, timeout=ANSWER_SECONDS)
            self._offsets.begin({(one.topic, one.partition): one.offset for one in places if one.offset >= 0})

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._offsets.revoke((one.topic, one.partition) for one in partitions)

    def _hear(self, error: KafkaError) -> None:
        """What the client says besides messages; it goes on trying by itself."""
        log.warning("kafka", group=self._group, error=error.str())
        self._error = error

    def _complain(self) -> None:
        """Raises `LakeError` where nothing came because nobody was there to give it."""
        from confluent_kafka import KafkaError  # noqa: PLC0415

        error = self._error
        if error is not None and (error.fatal() or error.code() == KafkaError._ALL_BROKERS_DOWN):
            raise refused(self._reading, self._config, error.str())


def _codes_of_losers() -> set[Any]:
    """What a broker tells one that is no member any more."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    return {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
