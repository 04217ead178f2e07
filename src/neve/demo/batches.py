"""Batches: a consumer that takes many messages at once begins a trace of its own and links to all that it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.demo import semantics
from neve.demo.context import Arrival
from neve.demo.interval import SECOND
from neve.demo.shop import SHOP
from neve.demo.span import CONSUMER, Link, Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.demo.topology import Topic
    from neve.demo.traces import Walker

POLL = 10 * SECOND


def group_by_poll(producers: Iterable[Span], start: int) -> dict[int, list[Span]]:
    """Group what was published by the instant of the poll that finds it, in order."""
    polls: dict[int, list[Span]] = {}
    for span in sorted(producers, key=lambda span: (span.end, span.span_id)):
        poll = start + ((span.end - start) // POLL + 1) * POLL
        polls.setdefault(poll, []).append(span)
    return polls


def consume_batches(walker: Walker, topic: Topic, start: int) -> None:
    """Let the topic's batch consumer work through all that the walker has published."""
    service = SHOP[topic.batch[0]]
    operation = service.by_name[topic.batch[1]]
    received = semantics.messaged(topic, "process", service.name)
    for poll, producers in group_by_poll(walker.published, start).items():
        links = tuple(
            Link(span.trace_id, span.span_id, {"messaging.kafka.offset": number})
            for number, span in enumerate(producers)
        )
        attributes = {**received, "messaging.batch.message_count": len(producers)}
        walker.serve(service, operation, Arrival(walker.trace({}), b"", poll, CONSUMER, links, attributes))
