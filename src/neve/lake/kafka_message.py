"""A message of Kafka as the bus's, or why it is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.bus import Message
from neve.lake.documents import load

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage


@dataclass(frozen=True)
class Malformed:
    """A message that someone else wrote."""

    place: str
    why: str


def parse(topic: str, found: KafkaMessage) -> Message | Malformed:
    """The message of a topic; one that has no JSON object for a value, or no text for a key, is malformed."""
    position = f"{found.partition()}:{found.offset()}"
    place = f"{found.topic()}/{position}"
    key, value = found.key() or b"", found.value()
    if value is None:
        return Malformed(place, "no value")
    try:
        content, name = load(_bytes(value)), _bytes(key).decode()
    except (ValueError, RecursionError):  # neither JSON nor UTF-8
        return Malformed(place, "no JSON")
    return Message(topic, name, content, position) if isinstance(content, dict) else Malformed(place, "no JSON object")


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
