"""The recorder: turns what has happened in the shop into spans, as the instrumentation of its services would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.demo import semantics
from neve.demo.context import Arrival, Frame, Outcome, Taken
from neve.demo.failure import Failure, stacktrace
from neve.demo.span import SERVER, Event, Span

if TYPE_CHECKING:
    import random

    from neve.demo.topology import Operation, Service

CONFIRMED = ("Charge", "PlaceOrder")  # operations whose authors set the status to Ok themselves


class Recorder:
    """Keeps finished spans in the order in which they were recorded."""

    def __init__(self, rng: random.Random) -> None:
        """Begin with no spans; ids are drawn from the given randomness."""
        self.rng = rng
        self.spans: list[Span] = []

    def trace_id(self) -> bytes:
        """Draw a trace id."""
        return self.rng.getrandbits(128).to_bytes(16, "big")

    def span_id(self) -> bytes:
        """Draw a span id."""
        return self.rng.getrandbits(64).to_bytes(8, "big")

    def served(self, frame: Frame, service: Service, operation: Operation, arrival: Arrival, outcome: Outcome) -> None:
        """Record the span of a request or a message that a service has answered."""
        trace, failure, by_call = frame.trace, outcome.failure, arrival.kind == SERVER
        technology, name, common = "kafka", operation.name, arrival.attributes
        if by_call:
            technology = service.protocol
            name = semantics.full_name(service.name, service.protocol, operation.name)
            common = semantics.served(service, operation.name, failure.code if failure else "OK")
        if failure is not None:
            frame.events.append(_exception(frame, failure, operation.name, outcome.end))
        self.spans.append(
            Span(
                trace.trace_id,
                frame.span_id,
                arrival.parent_id,
                frame.instance,
                semantics.library(service.language, technology),
                operation.name,
                name,
                arrival.kind,
                arrival.at,
                outcome.end,
                {**common, **{tag: trace.visit[tag] for tag in operation.tags}},
                tuple(frame.events),
                arrival.links,
                failure,
                failure is None and operation.name in CONFIRMED,
                trace.state,
            )
        )

    def step(self, frame: Frame, taken: Taken) -> Outcome:
        """Record the span of a step, below the span on whose behalf it was taken, and say how it came out."""
        trace, instance, failure = frame.trace, frame.instance, taken.failure
        self.spans.append(
            Span(
                trace.trace_id,
                taken.span_id or self.span_id(),
                frame.span_id,
                instance,
                semantics.library(instance.service.language, taken.technology),
                taken.name,
                taken.name,
                taken.kind,
                taken.start,
                taken.end,
                taken.attributes,
                (_exception(frame, failure, taken.name, taken.end),) if failure is not None else (),
                (),
                failure,
                False,
                trace.state,
            )
        )
        return Outcome(taken.end, failure)


def _exception(frame: Frame, failure: Failure, place: str, at: int) -> Event:
    """Return the event of an exception as the instance's language prints it."""
    service = frame.instance.service
    call = place.rpartition("/")[2].rpartition(" ")[2] or "handle"
    trace = stacktrace(failure, service.language, service.name, call)
    return Event(at, "exception", semantics.raised(failure, trace, escaped=True))
