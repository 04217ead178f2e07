"""A finished span as the simulation knows it, before it is put into any wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from neve.demo.attributes import Attributes
    from neve.demo.failure import Failure
    from neve.demo.fleet import Instance

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = 1, 2, 3, 4, 5  # OTLP's numbers of span kinds
UNSET, OK, ERROR = 0, 1, 2  # OTLP's numbers of status codes

SAMPLED = 0x01
KNOWS_PARENT = 0x100  # whether the parent is remote is known
REMOTE_PARENT = 0x200


class Event(NamedTuple):
    """Something noted on a span at an instant."""

    time: int
    name: str
    attributes: Attributes


class Link(NamedTuple):
    """A reference from a span to a span that caused it without being its parent."""

    trace_id: bytes
    span_id: bytes
    attributes: Attributes


class Span(NamedTuple):
    """One operation of one instance. `operation` is the name inside the shop, `name` the span's own."""

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
        """Return the name of the service whose span it is."""
        return self.instance.service.name

    @property
    def millis(self) -> float:
        """Return the duration in milliseconds."""
        return (self.end - self.start) / 1e6

    @property
    def status(self) -> int:
        """Return OTLP's status code: an error, explicitly well, or not set."""
        if self.failure is not None:
            return ERROR
        return OK if self.confirmed else UNSET

    @property
    def flags(self) -> int:
        """Return OTLP's flags: all are sampled, and servers and consumers have their parents elsewhere."""
        remote = self.kind in (SERVER, CONSUMER) and self.parent_id != b""
        return SAMPLED | KNOWS_PARENT | (REMOTE_PARENT if remote else 0)
