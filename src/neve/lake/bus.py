"""The bus: small messages by topic, handed to every group of readers in order and at least once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self


@dataclass(frozen=True)
class Message:
    """One message as a reader gets it; messages of one key come in the order in which they were published."""

    topic: str
    key: str
    value: dict[str, object]
    position: str


class Reader(Protocol):
    """One member of a group: what it takes, no other member of its group takes while it lives."""

    def take(self, limit: int, wait_seconds: float = 0.0) -> list[Message]:
        """The next messages, at most so many; none when there are none after so long."""

    def done(self) -> None:
        """All that was taken is dealt with: the group goes on after it, whoever reads. Without it, it comes again."""

    def lag(self) -> dict[str, int]:
        """How many messages of each topic the group has not dealt with."""

    def close(self) -> None:
        """Leave the group; what was taken and not dealt with comes again, to this group's next reader."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Bus(Protocol):
    """A bus; whatever it can't do is a `LakeError`. Threads may share it, readers they may not."""

    def publish(self, topic: str, messages: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        """Append messages, each a key and a value; when this returns, they are durable."""

    def reader(self, group: str, topics: Sequence[str]) -> Reader:
        """A reader of some topics. A group that reads a topic for the first time begins with its oldest message."""

    def close(self) -> None:
        """Close every connection."""
