"""Where a step happens: the trace, the span and the instance that take it, and how it comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from neve.demo.attributes import NOTHING
from neve.demo.span import SERVER, Event, Link

if TYPE_CHECKING:
    from neve.demo.attributes import Attributes
    from neve.demo.failure import Failure
    from neve.demo.fleet import Instance


class Trace(NamedTuple):
    """One trace: its id, its state, and the visit that it serves."""

    trace_id: bytes
    state: str
    visit: Attributes


class Arrival(NamedTuple):
    """How a request reaches a service: by a call or a message, from which span, when."""

    trace: Trace
    parent_id: bytes
    at: int
    kind: int = SERVER
    links: tuple[Link, ...] = ()
    attributes: Attributes = NOTHING


class Frame(NamedTuple):
    """The span on whose behalf steps are taken, while it is still open for events."""

    trace: Trace
    instance: Instance
    span_id: bytes
    events: list[Event]


class Taken(NamedTuple):
    """A step that was taken: what its span is to say. A span id is drawn for it if nobody has seen one yet."""

    name: str
    technology: str
    kind: int
    start: int
    end: int
    attributes: Attributes = NOTHING
    failure: Failure | None = None
    span_id: bytes = b""


class Outcome(NamedTuple):
    """When a step or a request ended, and the failure if it did not succeed."""

    end: int
    failure: Failure | None = None
