"""Spans with their attributes and times, as the simulation produces them, before they are encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from neve.demo.fleet import Instance
    from neve.demo.topology import Failure


SECOND = 1_000_000_000
MINUTE = 60 * SECOND


class Interval(NamedTuple):
    """The instants from `start` (inclusive) to `end` (exclusive)."""

    start: int
    end: int

    def contains(self, at: int) -> bool:
        """Return whether the instant is in the interval."""
        return self.start <= at < self.end


Value: TypeAlias = str | int | float | bool | tuple[str, ...]
"""Value of an attribute. Hashable, so that an encoder can cache frequent values."""

Attributes: TypeAlias = Mapping[str, Value]

NO_ATTRIBUTES: Attributes = MappingProxyType({})
"""Immutable default for no attributes."""

Body: TypeAlias = "str | int | float | bool | Sequence[Body] | Mapping[str, Body]"
"""Body of a log record: a text, or a structure of any depth."""


INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = 1, 2, 3, 4, 5  # OTLP numbers of span kinds
UNSET, OK, ERROR = 0, 1, 2  # OTLP numbers of status codes

SAMPLED = 0x01
KNOWS_PARENT = 0x100  # the next bit, remote parent or not, is valid
REMOTE_PARENT = 0x200


class Event(NamedTuple):
    """An event of a span at an instant."""

    time: int
    name: str
    attributes: Attributes


class Link(NamedTuple):
    """A reference from a span to a span that caused it without being its parent."""

    trace_id: bytes
    span_id: bytes
    attributes: Attributes


class Span(NamedTuple):
    """One operation of one instance. `operation` is its name in the shop, `name` is the span name."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    instance: Instance
    library: str
    operation: str
    name: str
    kind: int
    start: int
    end: int
    attributes: Attributes
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] = ()
    failure: Failure | None = None
    confirmed: bool = False
    trace_state: str = ""

    @property
    def service(self) -> str:
        """Return the name of the span's service."""
        return self.instance.service.name

    @property
    def millis(self) -> float:
        """Return the duration in milliseconds."""
        return (self.end - self.start) / 1e6

    @property
    def status(self) -> int:
        """Return the OTLP status code: error, explicitly ok, or unset."""
        if self.failure is not None:
            return ERROR
        return OK if self.confirmed else UNSET

    @property
    def flags(self) -> int:
        """Return the OTLP flags: all spans are sampled, and servers and consumers have remote parents."""
        remote = self.kind in (SERVER, CONSUMER) and self.parent_id != b""
        return SAMPLED | KNOWS_PARENT | (REMOTE_PARENT if remote else 0)
