"""Traces made by hand, one for each thing that a policy could read otherwise."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from tests.tail.oracle.values import MILLISECOND, Call, Event, Source, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

Trace = tuple[Source, ...]

# What an attribute can hold; `mixed` has each of them once on a resource and once on a span.
MIXED: tuple[Value, ...] = (
    None, True, False, 0, 1, -1, 5, 500, 2**63 - 1, -(2**63), 0.0, 5.0, 5.5, -0.5, "", " ", "a", "A", "abc", "5",
    "true", "line\nbreak", "naïve", b"", b"abc", [], ["abc"], [5], {}, {"a": 5}, {"a": {"b": "abc"}},
)  # fmt: skip

# Nanoseconds: at, under and over what the policies ask for.
DURATIONS = (
    0, 1, MILLISECOND - 1, MILLISECOND, MILLISECOND + 1, 2 * MILLISECOND - 1, 50 * MILLISECOND - 1, 50 * MILLISECOND,
    51 * MILLISECOND - 1, 51 * MILLISECOND, 100 * MILLISECOND, 101 * MILLISECOND - 1, 101 * MILLISECOND,
    5_000 * MILLISECOND, 5_001 * MILLISECOND, 3_600_000 * MILLISECOND, -1, -MILLISECOND, -2 * MILLISECOND,
)  # fmt: skip

TRACE_STATES = (
    "vendor=on", "vendor=off", "other=1,vendor=on", "vendor=on,other=1", "other=on", "vendor= on", "vendor=on ",
    " vendor=on", "\tvendor=on\t", "vendor =on", "vendor=on,,other=1", ",vendor=on", "vendor=on,vendor=off",
    "Vendor=on", "vendor=ON", "vendor=on,BAD=1", "vendor=on,=1", "vendor=on,other", "vendor=", "vendor==on",
    "vendor=on=off", "tenant@vendor=on", "1tenant@vendor=on", "1vendor=on", "vendor=on;off", "vendor=naïve",
    "vendor=two words", "ot=th:8", "ot=th:8;rv:0123456789abcd", "ot=th:c,vendor=on",
    f"vendor={'x' * 249}", f"vendor={'x' * 250}", f"vendor={'x' * 257}",
    ",".join(f"k{each}={each}" for each in range(31)) + ",vendor=on",
    ",".join(f"k{each}={each}" for each in range(32)) + ",vendor=on",
)  # fmt: skip

# The lowest byte holds the W3C flags; above it are OpenTelemetry's own.
FLAGS = (0, 1, 2, 3, 0x100, 0x101, 0x300, 0x301, 0xFFFFFFFE)

COUNTS = (1, 2, 3, 4, 5, 9, 10, 11, 60)

EVENTS: tuple[tuple[Event, ...], ...] = (
    (Event("exception", {"exception.type": "TimeoutError", "exception.escaped": True}),),
    (Event("exception", {"exception.type": "ValueError", "code": 5}),),
    (Event("retry", {"n": 1}), Event("retry", {"n": 2}), Event("exception")),
    (Event("", {"n": 2.0}, offset=50 * MILLISECOND),),
    (Event("retry", {"n": "2"}), Event("Exception", {"exception.type": ""})),
)


def edges() -> Iterator[Trace]:
    """Return every trace that is made by hand, in an order that stays."""
    kinds = (_one(Call(kind=kind, name=f"kind {kind}")) for kind in range(6))
    states = (_one(Call(status=code, message=text)) for code in range(3) for text in ("", "took too long"))
    flags = (_one(Call(flags=each)) for each in FLAGS)
    trace_states = (_one(Call(trace_state=each)) for each in TRACE_STATES)
    counts = (_one(*(Call(root=not place) for place in range(count))) for count in COUNTS)
    events = (_one(Call(events=each)) for each in EVENTS)
    return chain(_values(), _times(), kinds, states, flags, trace_states, counts, events, _several(), _few())


def _one(*calls: Call, **resource: Value) -> Trace:
    """Return a trace of one resource."""
    return (Source(calls, resource),)


def _values() -> Iterator[Trace]:
    """Each kind of value, on the resource alone and on a span alone, and keys that need care."""
    for value in MIXED:
        yield _one(Call(), mixed=value)
        yield _one(Call({"mixed": value}))
    yield _one(Call({'odd "key".[0]': "abc", "": "empty"}))
    yield (Source((Call({"mixed": "abc"}),), {"mixed": 5}),)
    yield (Source((Call({"mixed": 5}),), {"mixed": "abc"}),)


def _times() -> Iterator[Trace]:
    """Lengths at the thresholds, by one span and by several, and times that are missing."""
    for length in DURATIONS:
        yield _one(Call(end=length))
    yield _one(Call(end=None))
    yield _one(Call(start=None))
    yield _one(Call(start=None, end=None))
    half = 25 * MILLISECOND
    yield _one(Call(end=half), Call(start=half, end=2 * half, root=False))
    yield _one(Call(start=half, end=2 * half), Call(end=2 * half + MILLISECOND, root=False))
    yield _one(Call(start=half, end=None), Call(end=4 * half, root=False))
    yield (Source((Call(end=half),), {"r": 1}), Source((Call(start=3 * half, end=4 * half + MILLISECOND),), {"r": 2}))


def _several() -> Iterator[Trace]:
    """Traces whose answer hangs on one resource or one span among several."""
    odd = Call({"mixed": 5, "http.status_code": 500}, status=2, trace_state="vendor=on", flags=1, root=False)
    plain = Call({"mixed": "abc", "http.status_code": 200}, status=1)
    for calls in ((odd, plain), (plain, odd), (plain, plain), (odd, odd)):
        yield _one(*calls)
        yield tuple(Source((call,), {"place": place}) for place, call in enumerate(calls))
    yield (Source((plain,), {"mixed": 500}), Source((plain,), {"mixed": "other"}))
    yield (Source((plain,), {}), Source((replace(odd, attributes={}),), {"mixed": False}, "lib"))


def _few() -> Iterator[Trace]:
    """A handful of traces by the attribute `pick`, few enough for a limit of which all but the large ones fit."""
    for pick, count in (("small", 2), ("small", 4), ("large", 11), ("large", 30), ("both", 3), ("both", 5)):
        status = 2 if pick == "both" else 0
        yield _one(*(Call({"pick": pick, "n": place}, status=status, root=not place) for place in range(count)))
