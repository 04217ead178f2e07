"""Message bus: small messages by topic, delivered to every group of readers in order and at least once.

The limits of names, keys and values are those that every implementation accepts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from neve.errors import LakeError
from neve.state.documents import dump_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self


@dataclass(frozen=True)
class Message:
    """One message as a reader gets it. Messages of one key arrive in the order of publication."""

    topic: str
    key: str
    value: dict[str, object]
    position: str


class Reader(Protocol):
    """One member of a group. No other member of its group gets the same messages while it lives."""

    def take(self, limit: int, wait_seconds: float = 0.0) -> list[Message]:
        """Return the next messages, at most `limit`; an empty list if none arrive within `wait_seconds`."""

    def acknowledge(self) -> None:
        """Acknowledge all messages that were taken. Without this, the group's next reader gets them again."""

    def lag(self) -> dict[str, int]:
        """Return the number of messages of each topic that the group has not acknowledged."""

    def close(self) -> None:
        """Leave the group. The group's next reader gets unacknowledged messages again."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Bus(Protocol):
    """A message bus. Failures raise `LakeError`. Threads may share a bus, but not a reader."""

    def publish(self, topic: str, messages: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        """Append messages, each a key and a value. They are durable when this returns."""

    def reader(self, group: str, topics: Sequence[str]) -> Reader:
        """Return a reader of some topics. A group starts a new topic at its oldest message."""

    def close(self) -> None:
        """Close every connection."""


NAME_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,149}")  # with the longest prefix, the maximum length of a Kafka topic
MAX_KEY_BYTES = 2000  # bytes of UTF-8
MAX_VALUE_BYTES = 900_000  # bytes of JSON: brokers accept 1 MB by default


def check_bus_names(what: str, *names: str) -> None:
    """Raise `LakeError` for the name of a topic or a group that not every bus accepts."""
    for name in names:
        if not NAME_PATTERN.fullmatch(name):
            raise LakeError(
                f"the {what} is {name[:200]!r}, expected 1 to 149 letters, digits, dots, dashes and underscores"
            )


def check_subscription(group: str, topics: Sequence[str]) -> None:
    """Raise `LakeError` for a subscription that is not valid."""
    check_bus_names("group of a reader", group)
    check_bus_names("topic of a reader", *topics)
    if not topics or len(set(topics)) != len(topics):
        raise LakeError(f"group {group!r} reads the topics {list(topics)}, expected one or more, each once")


def encode_messages(topic: str, messages: Iterable[tuple[str, Mapping[str, object]]]) -> list[tuple[str, str]]:
    """Return the key and the JSON text of each message. Raises `LakeError` for messages that no bus accepts."""
    check_bus_names("topic of a message", topic)
    return [(_check_key(topic, key), _encode_value(topic, key, value)) for key, value in messages]


def _check_key(topic: str, key: str) -> str:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        size = MAX_KEY_BYTES + 1
    if size > MAX_KEY_BYTES or "\0" in key:
        raise LakeError(
            f"a message of topic {topic} has the key {key[:80]!r}, expected at most {MAX_KEY_BYTES} bytes of UTF-8 "
            "without a NUL"
        )
    return key


def _encode_value(topic: str, key: str, value: Mapping[str, object]) -> str:
    text = dump_document(value)
    if len(text) > MAX_VALUE_BYTES:
        raise LakeError(
            f"a message of topic {topic} with the key {key[:80]!r} has {len(text)} bytes of JSON, expected at most "
            f"{MAX_VALUE_BYTES}",
            hint="publish a reference to the data, not the data",
        )
    return text
