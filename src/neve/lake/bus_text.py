"""What the bus can carry, whichever one it is: names, keys and values that each of them takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from neve.errors import LakeError
from neve.lake.documents import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NAME = re.compile(r"[A-Za-z0-9._-]{1,149}")  # with the longest prefix, as long as a Kafka topic may be called
LONGEST_KEY = 2000  # bytes of UTF-8
LONGEST_VALUE = 900_000  # bytes of JSON: brokers take 1 MB unless they are told otherwise


def check_names(what: str, *names: str) -> None:
    """Raises `LakeError` for a topic or a group that not every bus can have."""
    for name in names:
        if not NAME.fullmatch(name):
            raise LakeError(
                f"the {what} is {name[:200]!r}, expected 1 to 149 letters, digits, dots, dashes and underscores"
            )


def check_reading(group: str, topics: Sequence[str]) -> None:
    """Raises `LakeError` for what nobody can read."""
    check_names("group of a reader", group)
    check_names("topic of a reader", *topics)
    if not topics or len(set(topics)) != len(topics):
        raise LakeError(f"group {group!r} reads the topics {list(topics)}, expected one or more, each once")


def packed(topic: str, messages: Iterable[tuple[str, Mapping[str, object]]]) -> list[tuple[str, str]]:
    """Messages as they are kept: the key and the text of the value; raises `LakeError` for what no bus can carry."""
    check_names("topic of a message", topic)
    return [(_key(topic, key), _value(topic, key, value)) for key, value in messages]


def _key(topic: str, key: str) -> str:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        size = LONGEST_KEY + 1
    if size > LONGEST_KEY or "\0" in key:
        raise LakeError(
            f"a message of topic {topic} has the key {key[:80]!r}, expected at most {LONGEST_KEY} bytes of UTF-8 "
            "without a NUL"
        )
    return key


def _value(topic: str, key: str, value: Mapping[str, object]) -> str:
    text = dump(value)
    if len(text) > LONGEST_VALUE:
        raise LakeError(
            f"a message of topic {topic} with the key {key[:80]!r} has {len(text)} bytes of JSON, expected at most "
            f"{LONGEST_VALUE}",
            hint="publish where something is, not the thing",
        )
    return text
