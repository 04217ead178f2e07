"""Traces made by a seeded generator, so that what nobody thought of by hand is met too."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.tail.oracle.edges import DURATIONS, EVENTS, FLAGS, MIXED, TRACE_STATES, Trace
from tests.tail.oracle.values import MILLISECOND, Attributes, Call, Source, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = 8
SERVICES: tuple[Value, ...] = ("frontend", "cart", "checkout", "payment-v2", "Payment", "", 7)
ENVIRONMENTS: tuple[Value, ...] = ("production", "staging", "prod-eu", "", True)
CODES: tuple[Value, ...] = (200, 200, 200, 204, 301, 399, 400, 404, 499, 500, 503, 599, 600, "500", 500.0, 0, -1)
NUMBERS: tuple[Value, ...] = (-10, -1, 0, 1, 2, 9, 10, 11, 100, 9.99, "10", True, 2**40, -(2**40))
ROUTES: tuple[Value, ...] = ("/", "/health", "/healthz", "/api/v1/cart", "/api/v2/cart/42", "/API/v1", "", "naïve", 3)
NAMES = ("GET /", "GET /health", "POST /cart", "SELECT", "publish", "")
# How likely a span carries each attribute, and what it then holds.
SPAN: tuple[tuple[str, float, tuple[Value, ...]], ...] = (
    ("http.status_code", 0.5, CODES),
    ("http.route", 0.4, ROUTES),
    ("n", 0.3, NUMBERS),
    ("flag", 0.2, (True, False, "true", 1)),
    ("mixed", 0.1, MIXED),
    ("environment", 0.05, ENVIRONMENTS),
    ("nested", 0.1, ({"a": 5, "b": {"c": "abc"}}, {"a": "5"}, {"b": {}})),
    ("tags", 0.1, (["red"], ["red", "blue"], [1, 2], [])),
)
RESOURCE: tuple[tuple[str, float, tuple[Value, ...]], ...] = (
    ("service.name", 0.9, SERVICES),
    ("environment", 0.6, ENVIRONMENTS),
    ("n", 0.1, NUMBERS),
    ("flag", 0.1, (True, False)),
    ("mixed", 0.05, MIXED),
)


def chance(count: int, seed: int = SEED) -> Iterator[Trace]:
    """Return `count` traces, most of them small."""
    random = Random(seed)
    for _ in range(count):
        yield _trace(random)


def ids(count: int, seed: int = SEED) -> Iterator[bytes]:
    """Return ids as they come: random, but for a few that are small or large."""
    random = Random(f"ids {seed}")
    yield (1).to_bytes(16, "big")
    yield b"\xff" * 16
    for _ in range(count - 2):
        yield random.randbytes(16)


def _trace(random: Random) -> Trace:
    """Return a trace of one to four sources and one to sixty spans."""
    spans = random.choice((1, 1, 1, 1, 2, 3, 5, 8, 10, 20, 60))
    sources = min(spans, random.choice((1, 1, 2, 4)))
    calls = [_call(random, root=not place, alone=spans == 1) for place in range(spans)]
    cuts = sorted(random.sample(range(1, spans), sources - 1))
    parts = [tuple(calls[low:high]) for low, high in zip((0, *cuts), (*cuts, spans), strict=True)]
    return tuple(Source(part, _attributes(random, RESOURCE), random.choice(("shop", "db"))) for part in parts)


def _call(random: Random, *, root: bool, alone: bool) -> Call:
    """Return a span; one that stands alone is often as long as a threshold, others are short and close together."""
    start = random.randrange(3 * MILLISECOND)
    length = random.choice(DURATIONS) if alone else random.randrange(random.choice((1, 30, 120)) * MILLISECOND)
    return Call(
        _attributes(random, SPAN),
        name=random.choice(NAMES),
        kind=random.randrange(6),
        status=random.choice((0, 0, 0, 0, 0, 0, 1, 1, 2)),
        flags=random.choice(FLAGS) if random.random() < 0.1 else 0,
        trace_state=random.choice(TRACE_STATES) if random.random() < 0.1 else "",
        start=start,
        end=None if random.random() < 0.03 else start + length,
        root=root,
        events=random.choice(EVENTS) if random.random() < 0.05 else (),
    )


def _attributes(random: Random, choices: tuple[tuple[str, float, tuple[Value, ...]], ...]) -> Attributes:
    """Return some of the attributes, each with one of its values."""
    return {key: random.choice(values) for key, likely, values in choices if random.random() < likely}
