"""Business metrics: what the shop has sold, and how far its consumers are behind; counted from the spans."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from neve.demo.metric import DELTA, Metric, Stream, double_points, int_points
from neve.demo.span import CONSUMER, PRODUCER, SERVER, Span
from neve.demo.tally import total_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.demo.fleet import Fleet, Instance
    from neve.demo.timeline import Exports, Ints, Timeline
    from neve.demo.topology import Topic

REVENUE = Metric("shop.revenue", "{currency}", "value of placed orders", "sum", DELTA, monotonic=True)
ORDERS_PLACED = Metric("shop.orders", "{order}", "placed orders", "sum", DELTA, monotonic=True)
DEPTH = Metric("messaging.queue.depth", "{message}", "messages not yet taken by the group", "gauge")


def placed(spans: Sequence[Span]) -> list[Span]:
    """Return the spans that placed an order."""
    return [s for s in spans if s.operation == "PlaceOrder" and s.kind == SERVER and s.failure is None]


def business_streams(spans: Sequence[Span], fleet: Fleet, topic: Topic, timeline: Timeline) -> Iterator[Stream]:
    """Yield orders and revenue by currency of each checkout instance, and the depth of the topic's queues."""
    by_currency: dict[tuple[Instance, str], list[Span]] = defaultdict(list)
    for span in placed(spans):
        by_currency[span.instance, str(span.attributes["app.currency"])].append(span)
    for (instance, currency), orders in by_currency.items():
        yield from _sales(instance, currency, orders, timeline.exports(instance.runs[0]))
    for group in (topic.each[0], topic.batch[0]):
        reporter = next(i for i in fleet.instances if i.service.name == group)
        times = timeline.exports(reporter.runs[0]).times
        labels = {"messaging.destination.name": topic.name, "messaging.consumer.group.name": group}
        yield Stream(reporter, DEPTH, int_points(None, times, _depth(spans, group, times), labels))


def _sales(instance: Instance, currency: str, orders: list[Span], exports: Exports) -> Iterator[Stream]:
    """Yield how many orders were placed in each period that saw any, and what they were worth."""
    slots = exports.slots(np.array([span.end for span in orders], dtype=np.int64))
    amounts = np.array([span.attributes["app.order.amount"] for span in orders], dtype=np.float64)
    counts = np.bincount(slots, minlength=len(exports.times)).astype(np.int64)
    values = total_by(slots, amounts, len(exports.times))
    told = np.flatnonzero(counts)
    starts, times = exports.previous[told], exports.times[told]
    yield Stream(instance, ORDERS_PLACED, int_points(starts, times, counts[told], {"app.currency": currency}))
    yield Stream(instance, REVENUE, double_points(starts, times, values[told].round(2), {"app.currency": currency}))


def _depth(spans: Sequence[Span], group: str, times: Ints) -> Ints:
    """Return how many messages were sent, but not yet taken by a group, at each instant."""
    sent = np.sort(np.array([s.end for s in spans if s.kind == PRODUCER], dtype=np.int64))
    taken = [s.start for s in spans if s.kind == CONSUMER and s.service == group for _ in s.links]
    received = np.sort(np.array(taken, dtype=np.int64))
    return (np.searchsorted(sent, times, "right") - np.searchsorted(received, times, "right")).astype(np.int64)
