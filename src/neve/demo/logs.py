"""Logs of requests: what a service writes while it serves a span, with the ids of that span."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.demo.failure import Failure, stacktrace
from neve.demo.log import DEBUG, ERROR, INFO, WARN, Log
from neve.demo.messages import MESSAGES
from neve.demo.span import CLIENT, CONSUMER, INTERNAL, SERVER, Span

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator

    from neve.demo.attributes import Attributes, Body

SLOW_MS = 1000.0
MISS_RATE = 0.5  # of cache misses that are logged
SHIPMENT_LAG = 40_000_000  # the collector sees a record up to so many nanoseconds after it was written


def request_logs(spans: Iterable[Span], rng: random.Random) -> Iterator[Log]:
    """Yield the logs of all spans, in the order of the spans."""
    for span in spans:
        yield from span_logs(span, rng)


def span_logs(span: Span, rng: random.Random) -> Iterator[Log]:
    """Yield what was logged in one span."""
    if span.kind in (SERVER, CONSUMER):
        yield from _served(span, rng)
    elif span.kind == CLIENT:
        yield from _called(span, rng)
    elif span.kind == INTERNAL and span.failure is not None:
        yield _failed(span, span.failure, rng)


def _served(span: Span, rng: random.Random) -> Iterator[Log]:
    """Yield the logs of an answered request: the failure, or what was done; and a warning if it took long."""
    if span.failure is not None:
        yield _failed(span, span.failure, rng, f"{span.operation} failed: ")
    elif span.operation == "PlaceOrder":
        yield _log(span, rng, INFO, _order(span.attributes), {"event.domain": "shop"})
    else:
        message = MESSAGES[span.service, span.operation]
        if message.chance >= 1.0 or rng.random() < message.chance:
            parameters = message.parameters(span.attributes)
            yield _log(span, rng, message.severity, message.fill(span.attributes), parameters)
    if span.millis > SLOW_MS:
        text = f"slow request: {span.operation} took {span.millis:.0f} ms"
        yield _log(span, rng, WARN, text, {"duration_ms": round(span.millis, 3), "slow": True})


def _called(span: Span, rng: random.Random) -> Iterator[Log]:
    """Yield the logs of a client: a warning for a failed attempt, a note for some cache misses."""
    if span.failure is not None:
        attempt = span.attributes.get("app.retry.attempt", 1)
        peer = span.attributes["peer.service"]
        facts: Attributes = {"peer.service": peer, "app.retry.attempt": attempt, "error.type": span.failure.code}
        yield _log(span, rng, WARN, f"call to {peer} failed on attempt {attempt}: {span.failure.message}", facts)
    elif span.attributes.get("app.cache.hit") is False and rng.random() < MISS_RATE:
        target = span.attributes["db.collection.name"]
        yield _log(span, rng, DEBUG, f"cache miss: {target}", {"db.collection.name": target})


def _failed(span: Span, failure: Failure, rng: random.Random, prefix: str = "") -> Log:
    """Return the error that a service logs when it fails, with the exception as attributes."""
    language, call = span.instance.service.language, span.operation.rpartition(" ")[2]
    facts: Attributes = {
        "exception.type": failure.type,
        "exception.message": failure.message,
        "exception.stacktrace": stacktrace(failure, language, span.service, call),
    }
    return _log(span, rng, ERROR, prefix + failure.message, facts)


def _order(attributes: Attributes) -> Body:
    """Return the structured body with which an order is announced."""
    return {
        "event": "order_placed",
        "order": {
            "id": attributes["app.order.id"],
            "amount": attributes["app.order.amount"],
            "currency": attributes["app.currency"],
            "products": attributes["app.product.ids"],
        },
        "items": attributes["app.cart.items"],
        "paid": True,
    }


def _log(span: Span, rng: random.Random, severity: int, body: Body, attributes: Attributes) -> Log:
    """Return a record written just before the span ended."""
    time = max(span.start, span.end - int(rng.random() * 200_000))
    observed = time + 1_000_000 + int(rng.random() * SHIPMENT_LAG)
    logger = f"shop.{span.service}"
    return Log(time, observed, span.instance, logger, severity, body, attributes, span.trace_id, span.span_id)
