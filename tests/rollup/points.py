"""Histories of metric points for hypothesis: streams as sources send them, with what goes wrong on the way."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

from neve.model.tables import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000_000
BEGIN = 1_767_261_000 * SECOND  # 2026-01-01 09:50 UTC, ten minutes before a whole hour
LENGTH = 1200 * SECOND

NAMES = ("http.server.duration", "jvm.memory")
ATTRIBUTES = (
    (),
    (("http.route", "/a"),),
    (("http.route", "/a"), ("code", "200")),
    (("http.route", "/b"), ("code", "200")),
)
RESOURCES = (
    (("service.name", "api"), ("host.name", "h1")),
    (("service.name", "api"), ("host.name", "h2")),
    (("host.name", "h1"),),
    (),
)
SCOPES = ((None, None, ()), ("lib", "1.0", ()), ("lib", "1.0", (("a", "1"), ("b", "2"))))
KINDS = ("gauge", "counter", "updown", "histogram", "exponential_histogram", "summary")
TYPES = {"counter": "sum", "updown": "sum"}

GAPS = (0, 1, 10, 10, 15, 30, 30, 60, 61, 120, 299, 300, 301, 420)  # seconds; the usual look-back is 300
NANOS = (0, 0, 0, 1, 999, 500_000_000, 999_999_999)
AGES = (0, 1, 30, 299, 300, 301, 7200)  # seconds that a stream has been running for at its first point
DELAYS = (1, 1, 5, 120, 7200)  # seconds until a point is taken in
EVENTS = (
    *("go",) * 10,
    *("restart", "restart", "quiet restart", "unknown start"),
    *("stale", "broken", "reshape", "reshape", "timeless"),
)

INTS = (0, 0, 1, 2, 7, 100, 2**53 + 1)
FLOATS = (0.0, 0.1, 0.5, 1.0, 2.5, 1e-9, 123.456, 1e12)
OBSERVATIONS = (0.0, 1e-5, 0.25, 0.7, 1.0, 1.3, 3.0, 5.0, 7.5, 10.0, 42.0, 1000.0, -0.7, -3.0)
BOUNDS = ((1.0, 5.0, 10.0), (1.0, 5.0, 10.0), (1.0, 10.0), (-1.0, 0.0, 5.0, 10.0, 50.0), (), None)
SCALES = (0, 2, 3, 6, 7, 8)
THRESHOLDS = (0.0, 0.0, 1e-6, 0.5, 1.1)
BROKEN = (math.nan, math.inf, -math.inf)


@dataclass(frozen=True)
class Habits:
    """What all points of a stream have in common."""

    number: int
    kind: str
    identity: dict[str, Any]
    is_whole: bool
    has_starts: bool
    tells_sum: bool
    tells_range: bool
    tells_count: bool

    @property
    def type(self) -> str:
        """The metric's type."""
        return TYPES.get(self.kind, self.kind)

    @property
    def is_summary(self) -> bool:
        """Whether it is a summary; no two points of those are at one time, so that there is no doubt about the last."""
        return self.kind == "summary"

    @property
    def is_cumulative(self) -> bool:
        """Whether points say all since the start; a summary's always do."""
        return self.is_summary or self.identity["aggregation_temporality"] == 2


@dataclass
class State:
    """Where a stream stands."""

    start: int
    time: int
    seen: list[float] = field(default_factory=list)
    bounds: tuple[float, ...] | None = BOUNDS[0]
    scale: int = 6
    threshold: float = 0.0


@st.composite
def histories(draw: st.DrawFn, max_streams: int = 4, max_points: int = 10) -> list[dict[str, Any]]:
    """Points of a few streams, some of them twice, in any order."""
    points: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, max_streams))):
        points += draw(_streams(number, max_points))
    points = _without_ties(points)
    copies = draw(st.lists(st.sampled_from(points), max_size=3)) if points else []
    delay = timedelta(seconds=draw(st.sampled_from(DELAYS)))
    points += [{**point, "ingested_at": point["ingested_at"] + delay} for point in copies]
    return draw(st.permutations(points))


def to_table(points: Sequence[dict[str, Any]]) -> pa.Table:
    """The points as rows of the raw table; what they don't have is null."""
    names = METRICS.schema.names
    rows = [{name: point.get(name) for name in names} for point in points]
    return pa.Table.from_pylist(rows, schema=METRICS.schema)


@st.composite
def _streams(draw: st.DrawFn, number: int, max_points: int) -> list[dict[str, Any]]:
    """The points of one stream, in order."""
    habits = draw(_habits(number))
    state = draw(_beginnings(habits))
    points: list[dict[str, Any]] = []
    for place in range(draw(st.integers(1, max_points))):
        if place:
            state.time += draw(st.sampled_from(GAPS)) * SECOND + habits.is_summary
        if state.time >= BEGIN + LENGTH:
            break
        event = draw(st.sampled_from(EVENTS))
        body = draw(_bodies(habits, state, event))
        points.append(_point(habits, state, body, draw(_surroundings(habits, event))))
    return points


@st.composite
def _habits(draw: st.DrawFn, number: int) -> Habits:
    kind = draw(st.sampled_from(KINDS))
    has_temporality = kind not in ("gauge", "summary")
    scope = draw(st.sampled_from(SCOPES))
    identity = {
        "organization_id": draw(st.sampled_from(("acme", "acme", "acme", "globex"))),
        "metric_name": draw(st.sampled_from(NAMES)),
        "metric_type": TYPES.get(kind, kind),
        "unit": draw(st.sampled_from(("s", "s", None))),
        "is_monotonic": {"counter": True, "updown": False}.get(kind),
        "aggregation_temporality": draw(st.sampled_from((1, 1, 2, 2, 2, 2, 0))) if has_temporality else None,
        "attributes": draw(st.sampled_from(ATTRIBUTES)),
        "code_type": draw(st.sampled_from(("int", "int", "int", None))),
        "resource_attrs": draw(st.sampled_from(RESOURCES)),
        "scope_name": scope[0],
        "scope_version": scope[1],
        "scope_attrs": scope[2],
    }
    often = st.sampled_from((True, True, True, False))
    return Habits(number, kind, identity, draw(st.booleans()), draw(often), draw(often), draw(often), draw(often))


@st.composite
def _beginnings(draw: st.DrawFn, habits: Habits) -> State:
    time = BEGIN + draw(st.integers(0, 900)) * SECOND + habits.is_summary * habits.number * 100
    start = time - draw(st.sampled_from(AGES)) * SECOND if habits.has_starts else 0
    state = State(start, time)
    if habits.is_cumulative:
        state.seen += draw(_fresh(habits))
    return state


def _fresh(habits: Habits) -> st.SearchStrategy[list[float]]:
    """What happened since the last point: one number for gauges and sums, any number of observations for others."""
    if habits.kind not in ("gauge", "counter", "updown"):
        return st.lists(st.sampled_from(OBSERVATIONS), max_size=4)
    numbers: tuple[float, ...] = INTS if habits.is_whole else FLOATS
    signed = numbers if habits.kind == "counter" else (*numbers, *(-number for number in numbers))
    return st.sampled_from(signed).map(lambda number: [number])


@st.composite
def _bodies(draw: st.DrawFn, habits: Habits, state: State, event: str) -> dict[str, Any]:
    """What the next point says; the stream goes on."""
    if event == "stale":
        return _stale(habits)
    if event in ("restart", "quiet restart", "unknown start"):
        _restart(habits, state, event, draw(st.sampled_from((0, 1, 10))))
    if event == "reshape":
        state.bounds = draw(st.sampled_from(BOUNDS))
        state.scale = draw(st.sampled_from(SCALES))
        state.threshold = draw(st.sampled_from(THRESHOLDS))
    fresh = draw(_fresh(habits))
    state.seen += fresh
    said = state.seen if habits.is_cumulative else fresh
    body = _says(habits, state, said)
    if event == "broken":
        key = "value" if habits.type in ("gauge", "sum") else "sum"
        body |= {key: draw(st.sampled_from(BROKEN)), "value_int": None}
    if habits.is_summary:
        body["quantile_values"] = draw(_quantile_values())
    return body


def _restart(habits: Habits, state: State, event: str, age: int) -> None:
    """Begin anew, with a new start time or without a word; a stream of unknown start goes on counting."""
    if event != "unknown start":
        state.seen = []
    if habits.has_starts and event != "quiet restart":
        state.start = state.time if event == "unknown start" else state.time - age * SECOND


def _stale(habits: Habits) -> dict[str, Any]:
    """A point that says that there is no value."""
    empty: dict[str, Any] = {"flags": 1}
    if habits.type not in ("gauge", "sum"):
        empty["count"] = 0
    return empty


@st.composite
def _quantile_values(draw: st.DrawFn) -> list[dict[str, float]]:
    places = draw(st.sampled_from(((), (0.5,), (0.5, 0.99))))
    return [{"quantile": place, "value": draw(st.sampled_from(OBSERVATIONS))} for place in places]


def _says(habits: Habits, state: State, said: Sequence[float]) -> dict[str, Any]:
    """The columns of one type."""
    if habits.kind == "gauge":
        return _number(habits, said[-1])
    if habits.type == "sum":
        return _number(habits, sum(said))
    body: dict[str, Any] = {
        "count": len(said),
        "sum": float(sum(said)) if habits.tells_sum else None,
    }
    if habits.is_summary:
        return body
    if habits.tells_range and said:
        body |= {"min": min(said), "max": max(said)}
    body |= _bounded(state, said) if habits.kind == "histogram" else _scaled(state, said)
    if not habits.tells_count and body.get("bucket_counts") != []:
        body["count"] = None
    return body


def _number(habits: Habits, value: float) -> dict[str, Any]:
    return {"value": float(value), "value_int": int(value) if habits.is_whole else None}


def _bounded(state: State, said: Sequence[float]) -> dict[str, Any]:
    """Buckets with bounds; a histogram may also have none at all."""
    if state.bounds is None:
        return {"explicit_bounds": [], "bucket_counts": []}
    counts = [0] * (len(state.bounds) + 1)
    for value in said:
        counts[bisect_left(state.bounds, value)] += 1
    return {"explicit_bounds": list(state.bounds), "bucket_counts": counts}


def _scaled(state: State, said: Sequence[float]) -> dict[str, Any]:
    """Exponential buckets; the zero bucket takes what is not above the threshold."""
    above = [value for value in said if abs(value) > state.threshold]
    return {
        "scale": state.scale,
        "zero_count": len(said) - len(above),
        "zero_threshold": state.threshold,
        "positive": _buckets([value for value in above if value > 0], state.scale),
        "negative": _buckets([-value for value in above if value < 0], state.scale),
    }


def _buckets(values: Sequence[float], scale: int) -> dict[str, Any] | None:
    if not values:
        return None
    numbers = [math.ceil(math.log2(value) * 2**scale) - 1 for value in values]
    counts = [0] * (max(numbers) - min(numbers) + 1)
    for number in numbers:
        counts[number - min(numbers)] += 1
    return {"offset": min(numbers), "bucket_counts": counts}


@st.composite
def _surroundings(draw: st.DrawFn, habits: Habits, event: str) -> dict[str, Any]:
    """What may differ between points of one stream: the order of attributes, nanoseconds, the delay."""
    is_exact = habits.is_summary or event in ("timeless", "unknown start")
    return {
        "nanos": 0 if is_exact else draw(st.sampled_from(NANOS)),
        "is_timeless": event == "timeless" and not habits.is_summary,
        "is_reversed": draw(st.booleans()),
        "is_null": draw(st.booleans()),
        "delay": draw(st.sampled_from(DELAYS)),
    }


def _point(habits: Habits, state: State, body: dict[str, Any], around: dict[str, Any]) -> dict[str, Any]:
    """One point as the raw table has it."""
    identity = dict(habits.identity)
    code_type = identity.pop("code_type")
    attributes, resource = identity["attributes"], identity["resource_attrs"]
    time = state.time + around["nanos"]
    timestamp = EPOCH + timedelta(microseconds=time // 1000)
    types = [(name, code_type) for name, _ in attributes if name == "code" and code_type]
    point = {
        **identity,
        "timestamp": timestamp,
        "service_name": dict(resource).get("service.name"),
        "time_unix_nano": 0 if around["is_timeless"] else time,
        "start_time_unix_nano": state.start if habits.kind != "gauge" else 0,
        "flags": 0,
        **body,
        "attributes": _map(attributes, around),
        "attribute_types": _map(types, around),
        "resource_attrs": _map(resource, around),
        "resource_attr_types": None,
        "scope_attrs": _map(identity["scope_attrs"], around),
    }
    # The order of attributes is not in the id, as the same record may come in another order.
    content = repr(sorted((name, _sorted(value)) for name, value in point.items() if value not in (None, [])))
    point["record_id"] = hashlib.blake2b(content.encode(), digest_size=16).digest()
    point["ingested_at"] = timestamp + timedelta(seconds=around["delay"])
    return point


def _map(pairs: Sequence[tuple[str, str]], around: dict[str, Any]) -> list[tuple[str, str]] | None:
    if not pairs and around["is_null"]:
        return None
    return list(reversed(pairs)) if around["is_reversed"] else list(pairs)


def _sorted(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value


def _without_ties(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points without those histograms and summaries whose order in their series nothing tells."""
    kept: dict[Any, dict[str, Any]] = {}
    for number, point in enumerate(points):
        names = ("organization_id", "metric_name", "metric_type", "unit", "aggregation_temporality", "scope_name")
        maps = ("attributes", "attribute_types", "resource_attrs", "scope_attrs")
        series = (*(point[name] for name in names), *(tuple(_sorted(point[name]) or ()) for name in maps))
        has_size = point["metric_type"] in ("gauge", "sum")
        time = point["time_unix_nano"] or (point["timestamp"] - EPOCH) // timedelta(microseconds=1) * 1000
        key = number if has_size else (series, time, point["start_time_unix_nano"], _count(point))
        kept.setdefault(key, point)
    return list(kept.values())


def _count(point: dict[str, Any]) -> int:
    """The observations of a point, also where it does not say how many they are."""
    if point.get("count") is not None:
        return int(point["count"])
    sides = (point, point.get("positive") or {}, point.get("negative") or {})
    return sum(sum(side.get("bucket_counts") or ()) for side in sides) + (point.get("zero_count") or 0)
