"""Traces have the structure of real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.demo.otlp_encoding import group_by
from neve.demo.shop import SERVICES
from neve.demo.spans import CLIENT, CONSUMER, ERROR, INTERNAL, OK, PRODUCER, SERVER, UNSET, Span

if TYPE_CHECKING:
    from neve.demo.simulation import Simulation


def by_trace(simulation: Simulation) -> dict[bytes, list[Span]]:
    """Group the run's spans by trace."""
    return group_by(simulation.spans, lambda span: span.trace_id)


def test_a_trace_is_a_tree(simulation: Simulation) -> None:
    """Every trace has one root, and every other span's parent is in the same trace."""
    for spans in by_trace(simulation).values():
        ids = {span.span_id for span in spans}
        roots = [span for span in spans if not span.parent_id]
        assert len(ids) == len(spans)
        assert len(roots) == 1
        assert all(span.parent_id in ids for span in spans if span.parent_id)


def test_spans_run_forward(simulation: Simulation) -> None:
    """No span ends before it starts, and none starts before its parent."""
    for spans in by_trace(simulation).values():
        starts = {span.span_id: span.start for span in spans}
        assert all(span.start <= span.end for span in spans)
        assert all(span.start >= starts[span.parent_id] for span in spans if span.parent_id)


def test_children_outlive_only_parents_that_did_not_wait(simulation: Simulation) -> None:
    """A child ends within its parent, unless it consumes a message or its client has timed out."""
    for spans in by_trace(simulation).values():
        parents = {span.span_id: span for span in spans}
        for span in spans:
            parent = parents.get(span.parent_id)
            if parent is None or span.end <= parent.end:
                continue
            waited_in_vain = parent.failure is not None and parent.failure.code == "DEADLINE_EXCEEDED"
            assert span.kind == CONSUMER or waited_in_vain


def test_a_server_belongs_to_another_service_than_its_client(simulation: Simulation) -> None:
    """A server's span hangs below a client's of another service; a step stays in the service that takes it."""
    spans = {span.span_id: span for span in simulation.spans}
    for span in simulation.spans:
        parent = spans.get(span.parent_id)
        if parent is None:
            continue
        if span.kind == SERVER:
            assert parent.kind == CLIENT
            assert parent.attributes["peer.service"] == span.service != parent.service
        elif span.kind in (CLIENT, INTERNAL, PRODUCER):
            assert span.instance is parent.instance


def test_every_kind_status_and_service_occurs(simulation: Simulation) -> None:
    """All five kinds, all three statuses and all twelve services send spans."""
    assert {span.kind for span in simulation.spans} == {INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER}
    assert {span.status for span in simulation.spans} == {UNSET, OK, ERROR}
    assert {span.service for span in simulation.spans} == {service.name for service in SERVICES}
    assert len(SERVICES) == 12


def test_attributes_have_every_type(simulation: Simulation) -> None:
    """Strings, whole numbers, fractions, truth values and arrays are all to be found."""
    assert {type(value) for span in simulation.spans for value in span.attributes.values()} == {
        str,
        int,
        float,
        bool,
        tuple,
    }


def test_failures_carry_a_stack_trace(simulation: Simulation) -> None:
    """Every failed span ends with an exception event that says the same as its status."""
    failed = [span for span in simulation.spans if span.failure is not None]
    assert failed
    for span in failed:
        assert span.failure is not None
        assert span.events[-1].name == "exception"
        assert span.events[-1].attributes["exception.message"] == span.failure.message
        assert str(span.events[-1].attributes["exception.stacktrace"]).count("\n") >= 5


def test_links_point_to_producers(simulation: Simulation) -> None:
    """Consumers link to the producers of their messages; a batch links to several, from a trace of its own."""
    spans = {(span.trace_id, span.span_id): span for span in simulation.spans}
    consumers = [span for span in simulation.spans if span.kind == CONSUMER]
    for span in consumers:
        assert span.links
        assert all(spans[link.trace_id, link.span_id].kind == PRODUCER for link in span.links)
    batches = [span for span in consumers if not span.parent_id]
    assert max(len(span.links) for span in batches) > 1
    assert sum(len(span.links) for span in batches) == sum(s.kind == PRODUCER for s in simulation.spans)


def test_flags_and_trace_state(simulation: Simulation) -> None:
    """Servers have remote parents, steps have local ones, and a few traces carry a state in all their spans."""
    for span in simulation.spans:
        remote = bool(span.flags & 0x200)
        assert span.flags & 0x101 == 0x101
        assert remote == (span.kind in (SERVER, CONSUMER) and bool(span.parent_id))
    states = [{span.trace_state for span in spans} for spans in by_trace(simulation).values()]
    assert all(len(state) == 1 for state in states)
    assert 0 < sum(state != {""} for state in states) < len(states) / 5


def test_instances_serve_only_while_they_are_in_service(simulation: Simulation) -> None:
    """A request begins on an instance that is sent requests, and ends while its process still runs."""
    for span in simulation.spans:
        if span.kind in (SERVER, CONSUMER):
            assert any(serves.contains(span.start) for serves in span.instance.serves)
            assert any(run.contains(span.end) for run in span.instance.runs)
