"""Simulate the shop: visitors arrive, services respond, batch consumers follow. All three signals derive from it."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.demo import semantic_conventions
from neve.demo.fleet import Fleet, build_fleet
from neve.demo.shop import FLOWS, ORDERS, SERVICES, SHOP
from neve.demo.spans import CONSUMER, MINUTE, SECOND, Interval, Link, Span
from neve.demo.traces import Arrival, Walker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.demo.incident import Incident
    from neve.demo.spans import Attributes
    from neve.demo.topology import Topic


SWING = 0.22  # the busiest and the quietest minute differ from the mean by this share
NOISE = 0.06  # of one minute relative to the curve


def load_curve(share: float) -> float:
    """Return the load at a share of the run relative to its mean: it rises to the middle and falls again."""
    return 1.0 + SWING * math.sin(2.0 * math.pi * (share - 0.22))


def draw_arrivals(rng: random.Random, start: int, minutes: int, per_minute: int) -> list[int]:
    """Return the arrival times of visitors, in order."""
    instants: list[int] = []
    for minute in range(minutes):
        expected = per_minute * load_curve((minute + 0.5) / minutes) * (1.0 + NOISE * rng.gauss(0.0, 1.0))
        count = max(1, round(rng.gauss(expected, math.sqrt(expected))))
        instants += (start + minute * MINUTE + int(rng.random() * MINUTE) for _ in range(count))
    return sorted(instants)


PRICES = {
    "SKI-POLE-115": 49.9,
    "SNOWSHOE-28": 189.0,
    "CRAMPON-12P": 159.5,
    "ICE-AXE-60": 99.0,
    "DOWN-PARKA-M": 329.0,
    "TENT-4S-2P": 749.0,
    "STOVE-MSR-2": 139.0,
    "GOGGLE-PHOTO": 84.95,
    "BEANIE-WOOL": 24.5,
    "AVALANCHE-BCN": 299.0,
    "ROPE-60M-9": 174.0,
    "THERMOS-1L": 34.9,
}
PRODUCTS = tuple(PRICES)
CURRENCIES = {"EUR": 1.0, "USD": 1.08, "CHF": 0.94, "GBP": 0.84, "NOK": 11.7}
COUNTRIES = ("DE", "US", "CH", "GB", "NO", "AT", "FR")
QUERIES = ("tent", "ski", "down jacket", "rope", "crampons", "goggles", "stove", "gift")
LANGUAGES = (("de-DE", "de;q=0.9"), ("en-US",), ("fr-CH", "fr;q=0.9", "de;q=0.5"), ("en-GB",), ("nb-NO", "en;q=0.7"))
CARDS = ("visa", "mastercard", "amex")
AGENTS = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_3 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148",
    "Mozilla/5.0 (X11; Linux x86_64; rv:136.0) Gecko/20100101 Firefox/136.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/134.0.0.0 Safari/537.36",
    "ShopApp/9.4.1 (Android 15)",
)
USERS = 2400


def draw_visit(rng: random.Random) -> Attributes:
    """Draw all facts of one visit; each service uses those it knows."""
    product = rng.choice(PRODUCTS)
    products = (product, *rng.sample(PRODUCTS, rng.randrange(3)))
    quantity = rng.choice((1, 1, 1, 2, 3))
    currency = rng.choice(tuple(CURRENCIES))
    amount = quantity * sum(PRICES[p] for p in products) * CURRENCIES[currency]
    fraud = round(rng.betavariate(1.2, 14.0), 4)
    return {
        **_draw_visitor(rng),
        "app.product.id": product,
        "url.path": f"/product/{product}",
        "app.product.ids": products,
        "app.product.quantity": quantity,
        "app.cart.items": quantity * len(products),
        "app.currency": currency,
        "app.currency.rate": CURRENCIES[currency],
        "app.order.id": f"ord-{rng.getrandbits(40):010x}",
        "app.order.amount": round(amount, 2),
        "app.payment.card_type": rng.choice(CARDS),
        "app.payment.three_d_secure": rng.random() < 0.4,
        "app.shipping.cost": round(4.9 + 1.5 * quantity, 2),
        "app.shipping.country": rng.choice(COUNTRIES),
        "app.shipping.express": rng.random() < 0.12,
        "app.fraud.score": fraud,
        "app.fraud.flagged": fraud > 0.25,
        "app.search.query": rng.choice(QUERIES),
        "app.search.hits": rng.randrange(0, 40),
        "app.stock.on_hand": rng.randrange(3, 180),
        "app.ads.keywords": products[:2],
        "app.ads.count": rng.randrange(1, 4),
        "app.recommendation.ids": products,
        "app.recommendation.score": round(0.5 + rng.random() / 2, 3),
    }


def _draw_visitor(rng: random.Random) -> dict[str, str | bool | tuple[str, ...]]:
    """Draw the attributes of a visitor."""
    bits = rng.getrandbits(96)
    return {
        "app.user.id": f"u-{rng.randrange(USERS):05d}",
        "app.user.guest": rng.random() < 0.3,
        "session.id": f"{bits:024x}",
        "client.address": f"198.51.{bits & 127}.{bits >> 8 & 255}",
        "user_agent.original": rng.choice(AGENTS),
        "http.request.header.accept-language": rng.choice(LANGUAGES),
    }


POLL = 10 * SECOND


def group_by_poll(producers: Iterable[Span], start: int) -> dict[int, list[Span]]:
    """Group published messages by the instant of the poll that finds them, in order."""
    polls: dict[int, list[Span]] = {}
    for span in sorted(producers, key=lambda span: (span.end, span.span_id)):
        poll = start + ((span.end - start) // POLL + 1) * POLL
        polls.setdefault(poll, []).append(span)
    return polls


def consume_batches(walker: Walker, topic: Topic, start: int) -> None:
    """Run the topic's batch consumer on all messages that the walker has published."""
    service = SHOP[topic.batch[0]]
    operation = service.by_name[topic.batch[1]]
    received = semantic_conventions.message_attributes(topic, "process", service.name)
    for poll, producers in group_by_poll(walker.published, start).items():
        links = tuple(
            Link(span.trace_id, span.span_id, {"messaging.kafka.offset": number})
            for number, span in enumerate(producers)
        )
        attributes = {**received, "messaging.batch.message_count": len(producers)}
        walker.serve(service, operation, Arrival(walker.trace({}), b"", poll, CONSUMER, links, attributes))


DRAIN_TIME = 2 * MINUTE  # visits that arrived in time are served to their end
STATE_RATE = 0.03  # of traces that enter through a partner's edge, which adds a trace state
STATES = ("shopcdn=pop-fra2", "shopcdn=pop-zrh1,ot=th:0", "partner=00f067aa0ba902b7")


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulated run of the shop: its fleet, its incident, and every span in the order of its end."""

    run: Interval
    fleet: Fleet
    incident: Incident
    spans: tuple[Span, ...]


def make_random(seed: int, purpose: str) -> random.Random:
    """Return the random generator of one purpose: drawing more for one purpose does not change another."""
    return random.Random(f"{seed}/{purpose}")  # noqa: S311 - telemetry that repeats, not secrets


def simulate(seed: int, run: Interval, incident: Incident, per_minute: int) -> Simulation:
    """Run the shop: visitors arrive, the services respond, and the batch consumer processes the published messages."""
    fleet = build_fleet(SERVICES, Interval(run.start, run.end + DRAIN_TIME), incident, make_random(seed, "fleet"))
    walker = Walker(make_random(seed, "walk"), fleet, incident)
    visitors = make_random(seed, "visitors")
    weights = [flow.weight for flow in FLOWS]
    for at in draw_arrivals(visitors, run.start, (run.end - run.start) // MINUTE, per_minute):
        flow = visitors.choices(FLOWS, weights)[0]
        state = visitors.choice(STATES) if visitors.random() < STATE_RATE else ""
        service = SHOP[flow.service]
        trace = walker.trace(draw_visit(visitors), state)
        walker.serve(service, service.by_name[flow.operation], Arrival(trace, b"", at))
    consume_batches(walker, ORDERS, run.start)
    spans = sorted(walker.recorder.spans, key=lambda span: span.end)
    return Simulation(run, fleet, incident, tuple(spans))
