"""The spans of a lap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.demo.body import Body, bodies
from neve.demo.wire_traces import traces_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.demo.cast import Cast
    from neve.demo.pace import Pace
    from neve.demo.span import Span
    from neve.demo.template import Draft, Ink


def span_bodies(cast: Cast, pace: Pace) -> Iterator[Body]:
    """The cast's spans as messages; a span is told by its number."""
    ends = [span.end + cast.moves[span.trace_id] for span in cast.spans]

    def draft(part: slice) -> Draft:
        return lambda ink: traces_request(_moved(span, cast, ink) for span in cast.spans[part]).SerializeToString()

    return bodies(range(len(cast.spans)), ends, pace, draft)


def _moved(span: Span, cast: Cast, ink: Ink) -> Span:
    move = cast.moves[span.trace_id]
    events = tuple(event._replace(time=ink.time(event.time + move)) for event in span.events)
    links = tuple(
        link._replace(trace_id=cast.trace_id(link.trace_id, ink), span_id=cast.span_id(link.span_id, ink))
        for link in span.links
    )
    return span._replace(
        trace_id=cast.trace_id(span.trace_id, ink),
        span_id=cast.span_id(span.span_id, ink),
        parent_id=cast.span_id(span.parent_id, ink),
        start=ink.time(span.start + move),
        end=ink.time(span.end + move),
        events=events,
        links=links,
    )
