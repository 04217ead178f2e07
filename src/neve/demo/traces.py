"""Walk each request through the services of the shop, and record the spans that their instrumentation would send."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from neve.demo import semantic_conventions
from neve.demo.incident import Incident, Wait, wait_for_connection
from neve.demo.shop import SHOP, TOPICS
from neve.demo.spans import CLIENT, CONSUMER, INTERNAL, NO_ATTRIBUTES, PRODUCER, SERVER, Event, Link, Span
from neve.demo.topology import (
    NANOS_PER_MS,
    Borrow,
    Call,
    Failure,
    Fetch,
    Latency,
    Operation,
    Parallel,
    Publish,
    Query,
    Service,
    Step,
    Work,
    format_stacktrace,
    make_timeout_failure,
)

if TYPE_CHECKING:
    import random

    from neve.demo.fleet import Fleet, Instance
    from neve.demo.spans import Attributes


class Trace(NamedTuple):
    """One trace: its id, its state, and the visit that it serves."""

    trace_id: bytes
    state: str
    visit: Attributes


class Arrival(NamedTuple):
    """The arrival of a request at a service: by a call or a message, its parent span, and the time."""

    trace: Trace
    parent_id: bytes
    at: int
    kind: int = SERVER
    links: tuple[Link, ...] = ()
    attributes: Attributes = NO_ATTRIBUTES


class OpenSpan(NamedTuple):
    """The parent span of steps, while it is still open for events."""

    trace: Trace
    instance: Instance
    span_id: bytes
    events: list[Event]


class StepSpan(NamedTuple):
    """The data for the span of a finished step. A span id is drawn if the step has none yet."""

    name: str
    technology: str
    kind: int
    start: int
    end: int
    attributes: Attributes = NO_ATTRIBUTES
    failure: Failure | None = None
    span_id: bytes = b""


class Outcome(NamedTuple):
    """The end of a step or a request, and the failure if it did not succeed."""

    end: int
    failure: Failure | None = None


OK_OPERATIONS = ("Charge", "PlaceOrder")  # operations whose authors set the status to Ok explicitly


class Recorder:
    """A recorder of finished spans in the order of recording."""

    def __init__(self, rng: random.Random) -> None:
        """Start without spans; ids are drawn from the given generator."""
        self.rng = rng
        self.spans: list[Span] = []

    def trace_id(self) -> bytes:
        """Draw a trace id."""
        return self.rng.getrandbits(128).to_bytes(16, "big")

    def span_id(self) -> bytes:
        """Draw a span id."""
        return self.rng.getrandbits(64).to_bytes(8, "big")

    def record_request(
        self, frame: OpenSpan, service: Service, operation: Operation, arrival: Arrival, outcome: Outcome
    ) -> None:
        """Record the span of a request or a message that a service has handled."""
        trace, failure, by_call = frame.trace, outcome.failure, arrival.kind == SERVER
        technology, name, common = "kafka", operation.name, arrival.attributes
        if by_call:
            technology = service.protocol
            name = semantic_conventions.span_name(service.name, service.protocol, operation.name)
            common = semantic_conventions.server_attributes(service, operation.name, failure.code if failure else "OK")
        if failure is not None:
            frame.events.append(_exception_event(frame, failure, operation.name, outcome.end))
        self.spans.append(
            Span(
                trace.trace_id,
                frame.span_id,
                arrival.parent_id,
                frame.instance,
                semantic_conventions.library_name(service.language, technology),
                operation.name,
                name,
                arrival.kind,
                arrival.at,
                outcome.end,
                {**common, **{tag: trace.visit[tag] for tag in operation.tags}},
                tuple(frame.events),
                arrival.links,
                failure,
                failure is None and operation.name in OK_OPERATIONS,
                trace.state,
            )
        )

    def record_step(self, frame: OpenSpan, step_span: StepSpan) -> Outcome:
        """Record the span of a step below its parent span, and return the outcome."""
        trace, instance, failure = frame.trace, frame.instance, step_span.failure
        self.spans.append(
            Span(
                trace.trace_id,
                step_span.span_id or self.span_id(),
                frame.span_id,
                instance,
                semantic_conventions.library_name(instance.service.language, step_span.technology),
                step_span.name,
                step_span.name,
                step_span.kind,
                step_span.start,
                step_span.end,
                step_span.attributes,
                (_exception_event(frame, failure, step_span.name, step_span.end),) if failure is not None else (),
                (),
                failure,
                False,
                trace.state,
            )
        )
        return Outcome(step_span.end, failure)


def _exception_event(frame: OpenSpan, failure: Failure, place: str, at: int) -> Event:
    """Return the event of an exception in the format of the instance's language."""
    service = frame.instance.service
    call = place.rpartition("/")[2].rpartition(" ")[2] or "handle"
    trace = format_stacktrace(failure, service.language, service.name, call)
    return Event(at, "exception", semantic_conventions.exception_attributes(failure, trace, escaped=True))


NETWORK = Latency(0.35, 0.4)
SENDING = Latency(1.8)
QUEUEING = Latency(180.0, 0.6)
BACKOFF = Latency(100.0, 0.2)


class Walker:
    """A walker of requests through the shop. Child spans are recorded before their parents, as they end."""

    def __init__(self, rng: random.Random, fleet: Fleet, incident: Incident) -> None:
        """Start without spans; the walker owns the random generator from here on."""
        self.rng = rng
        self.fleet = fleet
        self.incident = incident
        self.recorder = Recorder(rng)
        self.published: list[Span] = []

    def trace(self, visit: Attributes, state: str = "") -> Trace:
        """Start a new trace for a visit."""
        return Trace(self.recorder.trace_id(), state, visit)

    def serve(self, service: Service, operation: Operation, arrival: Arrival) -> Outcome:
        """Handle a request in a service: its own time around its steps, and a span of the outcome."""
        instance = self.fleet.pick(service.name, arrival.at, self.rng)
        frame = OpenSpan(arrival.trace, instance, self.recorder.span_id(), [])
        own = operation.latency.sample(self.rng)
        before = own * 2 // 5
        done = self._run(frame, operation.steps, arrival.at + before)
        outcome = Outcome(done.end + own - before, done.failure or self._own_failure(operation))
        self.recorder.record_request(frame, service, operation, arrival, outcome)
        return outcome

    def _own_failure(self, operation: Operation) -> Failure | None:
        """Draw whether an operation fails by itself after its steps succeeded."""
        return operation.failure if self.rng.random() < operation.error_rate else None

    def _run(self, frame: OpenSpan, steps: tuple[Step, ...], at: int) -> Outcome:
        """Run steps one after the other, until a required one fails."""
        for step in steps:
            if step.chance < 1.0 and self.rng.random() >= step.chance:
                continue
            outcome = self._run_step(frame, step, at)
            if outcome.failure is not None and step.required:
                return outcome
            at = outcome.end
        return Outcome(at)

    def _run_step(self, frame: OpenSpan, step: Step, at: int) -> Outcome:
        """Run one step."""
        match step:
            case Call():
                return self._call(frame, step, at)
            case Query():
                return self._query(frame, step, at)
            case Parallel():
                return self._parallel(frame, step, at)
            case Borrow():
                return self._borrow(frame, step, at)
            case Publish():
                return self._publish(frame, step, at)
            case Fetch() | Work():
                return self._spend(frame, step, at)

    def _spend(self, frame: OpenSpan, step: Fetch | Work, at: int) -> Outcome:
        """Spend time in the service's own work, or in an external service."""
        end = at + step.latency.sample(self.rng)
        if isinstance(step, Fetch):
            return self.recorder.record_step(
                frame, StepSpan(step.method, "http", CLIENT, at, end, semantic_conventions.fetch_attributes(step))
            )
        return self.recorder.record_step(frame, StepSpan(step.name, "app", INTERNAL, at, end))

    def _parallel(self, frame: OpenSpan, step: Parallel, at: int) -> Outcome:
        """Run steps concurrently; the first required failure is the failure of the group."""
        outcomes = [self._run(frame, (branch,), at) for branch in step.steps]
        failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
        return Outcome(max(outcome.end for outcome in outcomes), failures[0] if failures else None)

    def _call(self, frame: OpenSpan, call: Call, at: int) -> Outcome:
        """Call a service, and retry it while attempts are left."""
        outcome = self._attempt(frame, call, 1, at)
        for attempt in range(2, call.attempts + 1):
            if outcome.failure is None:
                break
            again = outcome.end + BACKOFF.sample(self.rng)
            frame.events.append(Event(again, "retry", {"app.retry.attempt": attempt, "peer.service": call.service}))
            outcome = self._attempt(frame, call, attempt, again)
        if call.event and outcome.failure is None:
            frame.events.append(Event(outcome.end, call.event, {"app.order.id": frame.trace.visit["app.order.id"]}))
        return outcome

    def _attempt(self, frame: OpenSpan, call: Call, attempt: int, at: int) -> Outcome:
        """Call a service once: the client waits for the response or the timeout; the server does not stop."""
        service, language = SHOP[call.service], frame.instance.service.language
        span_id = self.recorder.span_id()
        arrival = Arrival(frame.trace, span_id, at + NETWORK.sample(self.rng))
        response = self.serve(service, service.by_name[call.operation], arrival)
        end, deadline = response.end + NETWORK.sample(self.rng), at + call.timeout_ms * NANOS_PER_MS
        failure = response.failure.relay(language, call.service) if response.failure else None
        if end > deadline:
            end, failure = deadline, make_timeout_failure(language, call.service, call.timeout_ms)
        attributes = semantic_conventions.client_attributes(service, call.operation, failure.code if failure else "OK")
        if attempt > 1:
            attributes = {**attributes, "app.retry.attempt": attempt}
        name = semantic_conventions.span_name(service.name, service.protocol, call.operation)
        step_span = StepSpan(name, service.protocol, CLIENT, at, end, attributes, failure, span_id)
        return self.recorder.record_step(frame, step_span)

    def _query(self, frame: OpenSpan, query: Query, at: int) -> Outcome:
        """Send a statement to a store."""
        end = at + query.latency.sample(self.rng)
        if query.hit_rate is None:
            seen: Attributes = {"db.response.returned_rows": 1 + int(self.rng.random() * 3)}
        else:
            seen = {"app.cache.hit": self.rng.random() < query.hit_rate}
        attributes = {**semantic_conventions.query_attributes(query), **seen}
        name = f"{query.operation} {query.target}"
        return self.recorder.record_step(frame, StepSpan(name, query.store.system, CLIENT, at, end, attributes))

    def _borrow(self, frame: OpenSpan, step: Borrow, at: int) -> Outcome:
        """Wait for a connection of the instance's pool: briefly, or very long in the incident."""
        service = frame.instance.service
        if service.pool is None:
            return Outcome(at)
        wait = Wait(step.latency.sample(self.rng), None)
        if self.incident.active(service.name, at):
            wait = wait_for_connection(self.rng, service.pool)
        attributes = semantic_conventions.pool_wait_attributes(service.pool, wait.nanos / NANOS_PER_MS)
        name = f"{service.pool.name}.getConnection"
        step_span = StepSpan(name, "hikaricp", INTERNAL, at, at + wait.nanos, attributes, wait.failure)
        return self.recorder.record_step(frame, step_span)

    def _publish(self, frame: OpenSpan, step: Publish, at: int) -> Outcome:
        """Send a message to a topic; the subscriber of single messages processes it later, in the same trace."""
        topic = TOPICS[step.topic]
        end = at + SENDING.sample(self.rng)
        key = frame.trace.visit["app.order.id"]
        attributes = {**semantic_conventions.message_attributes(topic, "send", ""), "messaging.kafka.message.key": key}
        outcome = self.recorder.record_step(
            frame, StepSpan(f"{topic.name} send", "kafka", PRODUCER, at, end, attributes)
        )
        producer = self.recorder.spans[-1]
        self.published.append(producer)
        service = SHOP[topic.each[0]]
        link = Link(producer.trace_id, producer.span_id, {"messaging.destination.name": topic.name})
        received = semantic_conventions.message_attributes(topic, "process", service.name)
        at = end + QUEUEING.sample(self.rng)
        arrival = Arrival(frame.trace, producer.span_id, at, CONSUMER, (link,), received)
        self.serve(service, service.by_name[topic.each[1]], arrival)
        return outcome
