"""Log records of requests, which carry the ids of their spans, and of processes outside any request.

The cause of the incident is among the process logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from neve.demo.fleet import DRAIN, Fleet, Instance
from neve.demo.spans import CLIENT, CONSUMER, INTERNAL, SECOND, SERVER, Interval, Span
from neve.demo.topology import Failure, format_stacktrace

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator

    from neve.demo.incident import Incident
    from neve.demo.spans import Attributes, Body
    from neve.demo.topology import Pool


DEBUG, INFO, WARN, ERROR, FATAL = 5, 9, 13, 17, 21  # OTLP severity numbers
SEVERITY_TEXTS = {DEBUG: "DEBUG", INFO: "INFO", WARN: "WARN", ERROR: "ERROR", FATAL: "FATAL"}


class Log(NamedTuple):
    """One log record of one instance; the ids are empty if it belongs to no trace."""

    time: int
    observed: int
    instance: Instance
    logger: str
    severity: int
    body: Body
    attributes: Attributes
    trace_id: bytes = b""
    span_id: bytes = b""


@dataclass(frozen=True, slots=True)
class Message:
    """A message template, the span attributes that fill it, and the share of spans that log it."""

    text: str
    facts: tuple[str, ...] = ()
    chance: float = 1.0
    severity: int = INFO

    def fill(self, attributes: Attributes) -> str:
        """Return the message with the attributes of a span filled in."""
        return self.text.format(*(attributes[fact] for fact in self.facts))

    def parameters(self, attributes: Attributes) -> Attributes:
        """Return the same attributes separately, as attributes of the record."""
        return {fact: attributes[fact] for fact in self.facts}


_ACCESS = ("http.request.method", "http.route", "http.response.status_code")

MESSAGES: dict[tuple[str, str], Message] = {
    ("frontend", "GET /"): Message("{} {} {}", _ACCESS),
    ("frontend", "GET /product/{id}"): Message("{} {} {} product={}", (*_ACCESS, "app.product.id")),
    ("frontend", "GET /search"): Message("{} {} {} q={!r}", (*_ACCESS, "app.search.query")),
    ("frontend", "GET /cart"): Message("{} {} {}", _ACCESS),
    ("frontend", "POST /cart"): Message("{} {} {} product={}", (*_ACCESS, "app.product.id")),
    ("frontend", "GET /checkout/methods"): Message("{} {} {}", _ACCESS),
    ("frontend", "POST /checkout"): Message("{} {} {} items={}", (*_ACCESS, "app.cart.items")),
    ("cart", "GetCart"): Message(
        "cart of {} has {} items", ("app.user.id", "app.cart.items"), chance=0.8, severity=DEBUG
    ),
    ("cart", "AddItem"): Message(
        "added {} x {} to the cart of {}", ("app.product.quantity", "app.product.id", "app.user.id")
    ),
    ("cart", "EmptyCart"): Message("emptied the cart of {}", ("app.user.id",)),
    ("catalog", "ListProducts"): Message("listed the front page products", chance=0.6, severity=DEBUG),
    ("catalog", "GetProduct"): Message("product {} found", ("app.product.id",), chance=0.65, severity=DEBUG),
    ("catalog", "SearchProducts"): Message(
        "search for {!r} found {} products", ("app.search.query", "app.search.hits")
    ),
    ("inventory", "GetStock"): Message(
        "{} of {} on hand", ("app.stock.on_hand", "app.product.id"), chance=0.7, severity=DEBUG
    ),
    ("inventory", "Reserve"): Message("reserved stock for order {}", ("app.order.id",)),
    ("shipping", "POST /quote"): Message(
        "quoted {} for shipping to {}", ("app.shipping.cost", "app.shipping.country"), chance=0.8
    ),
    ("shipping", "POST /ship"): Message("parcel of order {} leaves for {}", ("app.order.id", "app.shipping.country")),
    ("currency", "Convert"): Message("converted to {}", ("app.currency",), chance=0.35, severity=DEBUG),
    ("recommendation", "ListRecommendations"): Message(
        "best match beside {} scores {}", ("app.product.id", "app.recommendation.score"), chance=0.8
    ),
    ("ad", "GetAds"): Message("serving {} ads", ("app.ads.count",), chance=0.7),
    ("fraud", "Score"): Message("order {} scored {}", ("app.order.id", "app.fraud.score")),
    ("fraud", "orders process"): Message("updated features from {} orders", ("messaging.batch.message_count",)),
    ("email", "orders process"): Message("sent the confirmation of order {}", ("app.order.id",)),
    ("payment", "Charge"): Message(
        "charged {} {} to a {} card for order {}",
        ("app.order.amount", "app.currency", "app.payment.card_type", "app.order.id"),
    ),
    ("payment", "ListMethods"): Message("listed payment methods of {}", ("app.user.id",)),
}
"""Messages by service and operation. Other operations are logged only if they fail."""


SLOW_MS = 1000.0
MISS_RATE = 0.5  # of cache misses that are logged
SHIPMENT_LAG = 40_000_000  # nanoseconds: the maximum delay between writing a record and the collector's observed time


def request_logs(spans: Iterable[Span], rng: random.Random) -> Iterator[Log]:
    """Yield the logs of all spans, in the order of the spans."""
    for span in spans:
        yield from span_logs(span, rng)


def span_logs(span: Span, rng: random.Random) -> Iterator[Log]:
    """Yield the logs of one span."""
    if span.kind in (SERVER, CONSUMER):
        yield from _server_logs(span, rng)
    elif span.kind == CLIENT:
        yield from _client_logs(span, rng)
    elif span.kind == INTERNAL and span.failure is not None:
        yield _failure_log(span, span.failure, rng)


def _server_logs(span: Span, rng: random.Random) -> Iterator[Log]:
    """Yield the logs of a served request: the failure or the result, and a warning if it was slow."""
    if span.failure is not None:
        yield _failure_log(span, span.failure, rng, f"{span.operation} failed: ")
    elif span.operation == "PlaceOrder":
        yield _span_log(span, rng, INFO, _order_body(span.attributes), {"event.domain": "shop"})
    else:
        message = MESSAGES[span.service, span.operation]
        if message.chance >= 1.0 or rng.random() < message.chance:
            parameters = message.parameters(span.attributes)
            yield _span_log(span, rng, message.severity, message.fill(span.attributes), parameters)
    if span.millis > SLOW_MS:
        text = f"slow request: {span.operation} took {span.millis:.0f} ms"
        yield _span_log(span, rng, WARN, text, {"duration_ms": round(span.millis, 3), "slow": True})


def _client_logs(span: Span, rng: random.Random) -> Iterator[Log]:
    """Yield the logs of a client: a warning for a failed attempt, a debug line for some cache misses."""
    if span.failure is not None:
        attempt = span.attributes.get("app.retry.attempt", 1)
        peer = span.attributes["peer.service"]
        facts: Attributes = {"peer.service": peer, "app.retry.attempt": attempt, "error.type": span.failure.code}
        yield _span_log(span, rng, WARN, f"call to {peer} failed on attempt {attempt}: {span.failure.message}", facts)
    elif span.attributes.get("app.cache.hit") is False and rng.random() < MISS_RATE:
        target = span.attributes["db.collection.name"]
        yield _span_log(span, rng, DEBUG, f"cache miss: {target}", {"db.collection.name": target})


def _failure_log(span: Span, failure: Failure, rng: random.Random, prefix: str = "") -> Log:
    """Return the error log of a failed service, with the exception as attributes."""
    language, call = span.instance.service.language, span.operation.rpartition(" ")[2]
    facts: Attributes = {
        "exception.type": failure.type,
        "exception.message": failure.message,
        "exception.stacktrace": format_stacktrace(failure, language, span.service, call),
    }
    return _span_log(span, rng, ERROR, prefix + failure.message, facts)


def _order_body(attributes: Attributes) -> Body:
    """Return the structured body that announces an order."""
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


def _span_log(span: Span, rng: random.Random, severity: int, body: Body, attributes: Attributes) -> Log:
    """Return a record written just before the span ended."""
    time = max(span.start, span.end - int(rng.random() * 200_000))
    observed = time + 1_000_000 + int(rng.random() * SHIPMENT_LAG)
    logger = f"shop.{span.service}"
    return Log(time, observed, span.instance, logger, severity, body, attributes, span.trace_id, span.span_id)


HEARTBEAT = 60 * SECOND
POOL_REPORT = 15 * SECOND
LEAK_REPORT = 20 * SECOND


def process_logs(fleet: Fleet, incident: Incident, run: Interval, rng: random.Random) -> Iterator[Log]:
    """Yield the logs of all processes of the fleet, instance by instance."""
    for instance in fleet.instances:
        for number, process in enumerate(instance.runs):
            yield from _lifecycle_logs(instance, process, run, rng)
            if number > 0:
                yield _crash_log(instance, process.start)
        pool = instance.service.pool
        if pool is not None and incident.is_leaking_release(instance.service.name, instance.version):
            yield from _exhaustion_logs(instance, pool, incident)


def _lifecycle_logs(instance: Instance, process: Interval, run: Interval, rng: random.Random) -> Iterator[Log]:
    """Yield a process's start, its heartbeats and its orderly end, as far as they are in the run."""
    name, version = instance.service.name, instance.version
    if process.start > run.start:
        facts: Attributes = {"service.version": version, "k8s.pod.name": instance.resource["k8s.pod.name"]}
        yield _process_log(instance, process.start, INFO, f"starting {name} version {version}", facts)
    first = process.start + int(rng.random() * HEARTBEAT)
    for at in range(first, min(process.end, run.end), HEARTBEAT):
        yield _process_log(instance, at, DEBUG, "health check passed", {"http.route": "/healthz", "healthy": True})
        if rng.random() < 0.25:
            yield _process_log(instance, at + SECOND, INFO, _reload_body(instance, rng), {"config.source": "configmap"})
    if process.end < run.end:
        yield _process_log(instance, process.end - DRAIN // 2, INFO, f"{name} is draining before it stops", {})


def _reload_body(instance: Instance, rng: random.Random) -> Body:
    """Return the structured body that lists the reloaded settings of a process."""
    return {"event": "config_reloaded", "revision": rng.randrange(100, 999), "log": {"level": "info", "json": True}}


def _crash_log(instance: Instance, at: int) -> Log:
    """Return the last log of a process that was killed after a failed liveness probe."""
    failure = Failure("java.lang.OutOfMemoryError", "Java heap space", "INTERNAL")
    facts: Attributes = {
        "exception.type": failure.type,
        "exception.message": failure.message,
        "exception.stacktrace": format_stacktrace(failure, instance.service.language, instance.service.name, "refresh"),
        "exit.code": 137,
    }
    return _process_log(instance, at - 5 * SECOND, FATAL, "java.lang.OutOfMemoryError: Java heap space", facts)


def _exhaustion_logs(instance: Instance, pool: Pool, incident: Incident) -> Iterator[Log]:
    """Yield the pool's warnings in the bad release: first leaked connections, then exhaustion."""
    serving = instance.serves[0]
    for number, at in enumerate(range(serving.start + LEAK_REPORT, serving.end, LEAK_REPORT)):
        leak = Failure("java.lang.Exception", "Apparent connection leak detected", "INTERNAL")
        text = f"Connection leak detection triggered for org.postgresql.jdbc.PgConnection@{0x3F10 + number * 77:x}"
        trace = format_stacktrace(leak, "java", "payment", "LedgerAuditor.record")
        facts: Attributes = {"db.client.connection.pool.name": pool.name, "exception.stacktrace": trace}
        yield _process_log(instance, at, WARN, text, facts)
    for at in range(incident.window.start, incident.window.end, POOL_REPORT):
        state = f"total={pool.size}, active={pool.size}, idle=0, waiting={1 + at // SECOND % 3}"
        text = f"{pool.name} - connection pool exhausted ({state})"
        yield _process_log(
            instance, at, ERROR, text, {"db.client.connection.pool.name": pool.name, "pool.active": pool.size}
        )


def _process_log(instance: Instance, at: int, severity: int, body: Body, attributes: Attributes) -> Log:
    """Return a record that belongs to no trace."""
    return Log(at, at + SECOND // 50, instance, f"shop.{instance.service.name}.runtime", severity, body, attributes)
