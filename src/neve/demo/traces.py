"""Traces: a walk through the shop for each visit, which leaves the spans that its services would have sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.demo import semantics
from neve.demo.context import Arrival, Frame, Outcome, Taken, Trace
from neve.demo.failure import Failure, timed_out
from neve.demo.incident import Incident, Wait, wait_for_connection
from neve.demo.recorder import Recorder
from neve.demo.shop import SHOP
from neve.demo.span import CLIENT, CONSUMER, INTERNAL, PRODUCER, Event, Link, Span
from neve.demo.stores import TOPICS
from neve.demo.topology import (
    NANOS_PER_MS,
    Borrow,
    Call,
    Fetch,
    Latency,
    Operation,
    Parallel,
    Publish,
    Query,
    Service,
    Step,
    Work,
)

if TYPE_CHECKING:
    import random

    from neve.demo.attributes import Attributes
    from neve.demo.fleet import Fleet

NETWORK = Latency(0.35, 0.4)
SENDING = Latency(1.8)
QUEUEING = Latency(180.0, 0.6)
BACKOFF = Latency(100.0, 0.2)


class Walker:
    """Walks requests through the shop. The spans come out children first, as they end."""

    def __init__(self, rng: random.Random, fleet: Fleet, incident: Incident) -> None:
        """Begin with no spans; the generator of randomness is the walker's own from here on."""
        self.rng = rng
        self.fleet = fleet
        self.incident = incident
        self.recorder = Recorder(rng)
        self.published: list[Span] = []

    def trace(self, visit: Attributes, state: str = "") -> Trace:
        """Begin a new trace for a visit."""
        return Trace(self.recorder.trace_id(), state, visit)

    def serve(self, service: Service, operation: Operation, arrival: Arrival) -> Outcome:
        """Let a service answer a request: its own time around its steps, and a span of what came of it."""
        instance = self.fleet.pick(service.name, arrival.at, self.rng)
        frame = Frame(arrival.trace, instance, self.recorder.span_id(), [])
        own = operation.latency.sample(self.rng)
        before = own * 2 // 5
        done = self._run(frame, operation.steps, arrival.at + before)
        outcome = Outcome(done.end + own - before, done.failure or self._own_failure(operation))
        self.recorder.served(frame, service, operation, arrival, outcome)
        return outcome

    def _own_failure(self, operation: Operation) -> Failure | None:
        """Draw whether an operation whose steps went well fails by itself."""
        return operation.failure if self.rng.random() < operation.error_rate else None

    def _run(self, frame: Frame, steps: tuple[Step, ...], at: int) -> Outcome:
        """Take steps one after the other, until one fails that the rest can't do without."""
        for step in steps:
            if step.chance < 1.0 and self.rng.random() >= step.chance:
                continue
            outcome = self._take(frame, step, at)
            if outcome.failure is not None and step.required:
                return outcome
            at = outcome.end
        return Outcome(at)

    def _take(self, frame: Frame, step: Step, at: int) -> Outcome:
        """Take one step."""
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

    def _spend(self, frame: Frame, step: Fetch | Work, at: int) -> Outcome:
        """Let time pass in the service's own work, or in somebody else's."""
        end = at + step.latency.sample(self.rng)
        if isinstance(step, Fetch):
            return self.recorder.step(frame, Taken(step.method, "http", CLIENT, at, end, semantics.fetched(step)))
        return self.recorder.step(frame, Taken(step.name, "app", INTERNAL, at, end))

    def _parallel(self, frame: Frame, step: Parallel, at: int) -> Outcome:
        """Take steps at the same time; the first failure that matters is the group's."""
        outcomes = [self._run(frame, (branch,), at) for branch in step.steps]
        failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
        return Outcome(max(outcome.end for outcome in outcomes), failures[0] if failures else None)

    def _call(self, frame: Frame, call: Call, at: int) -> Outcome:
        """Call a service, again if it fails and attempts are left."""
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

    def _attempt(self, frame: Frame, call: Call, attempt: int, at: int) -> Outcome:
        """Call a service once: the client waits for the answer, or until the timeout; the server does not stop."""
        service, language = SHOP[call.service], frame.instance.service.language
        span_id = self.recorder.span_id()
        arrival = Arrival(frame.trace, span_id, at + NETWORK.sample(self.rng))
        answer = self.serve(service, service.by_name[call.operation], arrival)
        end, deadline = answer.end + NETWORK.sample(self.rng), at + call.timeout_ms * NANOS_PER_MS
        failure = answer.failure.relayed(language, call.service) if answer.failure else None
        if end > deadline:
            end, failure = deadline, timed_out(language, call.service, call.timeout_ms)
        attributes = semantics.called(service, call.operation, failure.code if failure else "OK")
        if attempt > 1:
            attributes = {**attributes, "app.retry.attempt": attempt}
        name = semantics.full_name(service.name, service.protocol, call.operation)
        taken = Taken(name, service.protocol, CLIENT, at, end, attributes, failure, span_id)
        return self.recorder.step(frame, taken)

    def _query(self, frame: Frame, query: Query, at: int) -> Outcome:
        """Send a statement to a store."""
        end = at + query.latency.sample(self.rng)
        if query.hit_rate is None:
            seen: Attributes = {"db.response.returned_rows": 1 + int(self.rng.random() * 3)}
        else:
            seen = {"app.cache.hit": self.rng.random() < query.hit_rate}
        attributes = {**semantics.queried(query), **seen}
        name = f"{query.operation} {query.target}"
        return self.recorder.step(frame, Taken(name, query.store.system, CLIENT, at, end, attributes))

    def _borrow(self, frame: Frame, step: Borrow, at: int) -> Outcome:
        """Wait for a connection of the instance's pool: hardly at all, or for very long in the incident."""
        service = frame.instance.service
        if service.pool is None:
            return Outcome(at)
        wait = Wait(step.latency.sample(self.rng), None)
        if self.incident.active(service.name, at):
            wait = wait_for_connection(self.rng, service.pool)
        attributes = semantics.borrowed(service.pool, wait.nanos / NANOS_PER_MS)
        name = f"{service.pool.name}.getConnection"
        taken = Taken(name, "hikaricp", INTERNAL, at, at + wait.nanos, attributes, wait.failure)
        return self.recorder.step(frame, taken)

    def _publish(self, frame: Frame, step: Publish, at: int) -> Outcome:
        """Put a message on a topic; the subscriber that takes one at a time gets to it later, in the same trace."""
        topic = TOPICS[step.topic]
        end = at + SENDING.sample(self.rng)
        key = frame.trace.visit["app.order.id"]
        attributes = {**semantics.messaged(topic, "send", ""), "messaging.kafka.message.key": key}
        outcome = self.recorder.step(frame, Taken(f"{topic.name} send", "kafka", PRODUCER, at, end, attributes))
        producer = self.recorder.spans[-1]
        self.published.append(producer)
        service = SHOP[topic.each[0]]
        link = Link(producer.trace_id, producer.span_id, {"messaging.destination.name": topic.name})
        received = semantics.messaged(topic, "process", service.name)
        at = end + QUEUEING.sample(self.rng)
        arrival = Arrival(frame.trace, producer.span_id, at, CONSUMER, (link,), received)
        self.serve(service, service.by_name[topic.each[1]], arrival)
        return outcome
