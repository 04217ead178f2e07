"""Trace summaries and the service map in plain Python, from a list of spans. Shares no code with the product."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

MINUTE = 60 * 10**9
CLIENT, SERVER, PRODUCER, CONSUMER, FAILED = 3, 2, 4, 5, 2


@dataclass(frozen=True)
class PlainSpan:
    """A span. Times are nanoseconds; an `end` of 0 is unknown."""

    organization: str
    trace: bytes
    number: int
    parent: int | None
    service: str
    name: str
    kind: int
    status: int
    start: int
    end: int
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def stop(self) -> int:
        """The end, or the start if it is unknown or before it."""
        return max(self.end, self.start)

    @property
    def latency_ms(self) -> float | None:
        """The duration in milliseconds, if the end is known."""
        return (self.end - self.start) / 1e6 if self.end else None

    @property
    def weight(self) -> float:
        """The number of spans that it stands for."""
        return float(self.attributes.get("sampling.adjusted_count", "1"))


def by_trace(spans: list[PlainSpan]) -> dict[tuple[str, bytes], list[PlainSpan]]:
    """Group spans by organization and trace, in the order of their starts."""
    found: defaultdict[tuple[str, bytes], list[PlainSpan]] = defaultdict(list)
    for one in sorted(spans, key=lambda span: (span.start, span.number)):
        found[one.organization, one.trace].append(one)
    return found


def summarize(spans: list[PlainSpan]) -> dict[str, Any]:
    """Return the summary of one trace."""
    ids = {one.number for one in spans}
    roots = [one for one in spans if one.parent is None]
    tops = roots or [one for one in spans if one.parent not in ids]
    path: defaultdict[int, int] = defaultdict(int)
    if tops:
        walk(tops[0], tops[0].start, tops[0].stop, spans, path)
    services: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in spans:
        services[one.service][0] += 1
        services[one.service][1] += one.status == FAILED
        services[one.service][2] += path[one.number]
    start, stop = min(one.start for one in spans), max(one.stop for one in spans)
    return {
        "root": (roots[0].service, roots[0].name, roots[0].status) if roots else (None, None, None),
        "duration_ms": (stop - start) / 1e6,
        "counts": (
            len(spans),
            sum(one.status == FAILED for one in spans),
            sum(one.parent is not None and one.parent not in ids for one in spans),
        ),
        "times": (start, stop, max(one.start for one in spans)),
        "services": {name: tuple(values) for name, values in services.items()},
    }


def walk(span: PlainSpan, first: int, last: int, spans: list[PlainSpan], path: defaultdict[int, int]) -> None:
    """Add the critical path below a span, from its end backwards."""
    cursor = last
    children = [one for one in spans if one.parent == span.number]
    for child in sorted(children, key=lambda one: -one.stop):
        begin, end = max(child.start, first), min(child.stop, cursor)
        if begin < end:
            path[span.number] += cursor - end
            walk(child, begin, end, spans, path)
            cursor = begin
    path[span.number] += max(cursor - first, 0)


Edge = tuple[str, int, str, str, str]  # organization, minute, client, server, connection


def count_calls(spans: list[PlainSpan]) -> dict[Edge, dict[str, Any]]:
    """Return the calls of all edges by minute."""
    found: dict[Edge, dict[str, Any]] = {}
    for trace in by_trace(spans).values():
        by_number = {one.number: one for one in trace}
        answered = set()
        for one in trace:
            parent = by_number.get(one.parent) if one.parent is not None else None
            if parent is not None and is_call(parent, one):
                answered.add(parent.number)
                kind = "messaging_system" if parent.kind == PRODUCER or one.kind == CONSUMER else ""
                failed = FAILED in (parent.status, one.status)
                add(found, one, (parent.service, one.service, kind), failed, (parent.latency_ms, one.latency_ms))
            elif one.parent is None and one.kind in (SERVER, CONSUMER):
                alone(found, one, "user", one.service, "virtual_node")
        for one in trace:
            if one.kind in (CLIENT, PRODUCER) and one.number not in answered:
                peer, database, queue = (one.attributes.get(key) for key in ("peer.service", "db.system", "queue"))
                queue = one.attributes.get("messaging.destination.name", queue)
                if database:
                    alone(found, one, one.service, peer or database, "database")
                elif queue:
                    alone(found, one, one.service, queue, "messaging_system")
                elif peer:
                    alone(found, one, one.service, peer, "virtual_node")
    return found


def is_call(parent: PlainSpan, child: PlainSpan) -> bool:
    """Return whether a child is a call of its parent."""
    is_remote = parent.kind in (CLIENT, PRODUCER) and child.kind in (SERVER, CONSUMER)
    return parent.service != child.service or is_remote


def alone(found: dict[Edge, dict[str, Any]], span: PlainSpan, client: str, server: str, kind: str) -> None:
    """Count a call of which one side sends no spans."""
    add(found, span, (client, server, kind), span.status == FAILED, (span.latency_ms, span.latency_ms))


def add(
    found: dict[Edge, dict[str, Any]],
    span: PlainSpan,
    edge: tuple[str, str, str],
    failed: bool,
    sides: tuple[float | None, float | None],
) -> None:
    """Count a call in the minute of a span."""
    key = (span.organization, span.start // MINUTE * MINUTE, *edge)
    total = found.setdefault(key, {"calls": 0, "errors": 0, "weight": 0.0, "failed": 0.0, "client": {}, "server": {}})
    total["calls"] += 1
    total["errors"] += failed
    total["weight"] += span.weight
    total["failed"] += span.weight * failed
    known = [one for one in sides if one is not None]
    for side, latency in zip(("client", "server"), sides, strict=True):
        value = latency if latency is not None else next(iter(known), None)
        if value is not None:
            bucket = math.ceil(math.log2(value / 1000) * 32) - 1 if value > 0 else -1280
            total[side][bucket] = total[side].get(bucket, 0.0) + span.weight
