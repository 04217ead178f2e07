"""Parameters of Jaeger's HTTP API, of its first version and of version 3."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial, reduce
from typing import TYPE_CHECKING

from neve.errors import InvalidExpression
from neve.lexical.units import UnitError, parse_go_duration
from neve.traceql.language.fields import KINDS, STATUSES, Attribute, Binary, Existence, Static, Type
from neve.traceql.language.syntax import Filter, Pipeline, Query
from neve.traceql.storage.span_reader import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.traceql.language.fields import Field

__all__ = ["KIND_NAMES", "NO_SERVICE", "BadRequest", "Parameters"]

NO_SERVICE = "OTLPResourceNoServiceName"  # as Jaeger names a resource without a service
KIND_NAMES = {number: name for name, number in KINDS.items() if name != "unspecified"}
DAY_NS = 24 * 3600 * 10**9
LOOKBACK_NS = 2 * DAY_NS
DEFAULT_TRACES, MAX_TRACES = 100, 1500
MAX_TAGS = 20
MAX_IDS = 64
_MICRO_NS, _MILLI_NS = 1000, 1_000_000
_MAX_NS = (1 << 63) - 1
_NUMBER = re.compile(r"[0-9]{1,19}")
_DECIMAL = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_TRACE_ID = re.compile(r"[0-9a-fA-F]{1,32}")
_TAG_SCOPES = ("span", "resource", "event", "instrumentation")
_V3_NAMES = {
    "service": ("query.serviceName", "query.service_name", "service"),
    "operation": ("query.operationName", "query.operation_name"),
    "tags": ("query.attributes",),
    "minDuration": ("query.durationMin", "query.duration_min"),
    "maxDuration": ("query.durationMax", "query.duration_max"),
    "limit": ("query.searchDepth", "query.search_depth", "query.num_traces"),
    "start": ("query.startTimeMin", "query.start_time_min"),
    "end": ("query.startTimeMax", "query.start_time_max"),
}


class BadRequest(InvalidExpression):
    """Raised when a parameter is missing or malformed."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a request by name. Those of version 3 have other names, and times of RFC 3339."""

    pairs: Sequence[tuple[str, str]]
    now_ns: int
    is_v3: bool = False
    _values: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_values", dict(reversed(self.pairs)))

    def text(self, name: str) -> str:
        """Return a parameter, or "" if it is missing."""
        return self._find(name)[1]

    def _find(self, name: str) -> tuple[str, str]:
        """Return the name that the client used, and its text."""
        names = _V3_NAMES.get(name, (name,)) if self.is_v3 else (name,)
        return next(((one, self._values[one]) for one in names if self._values.get(one)), (names[0], ""))

    def service(self) -> str:
        """Return the service of a search or of operations."""
        name, text = self._find("service")
        if not text:
            raise BadRequest(f"{name} is missing, expected the name of a service")
        return text

    def kind(self) -> str:
        """Return the kind of operations, or "" for all."""
        text = self.text("spanKind") or self.text("span_kind")
        if text.lower() not in {"", *KIND_NAMES.values()}:
            raise BadRequest(f"spanKind is {text[:100]!r}, expected one of {', '.join(KIND_NAMES.values())}")
        return text.lower()

    def window(self) -> Window:
        """Return the time range: without a start, the two days before its end."""
        if self.is_v3 and not (self.text("start") and self.text("end")):
            raise BadRequest("query.startTimeMin and query.startTimeMax are required")
        end = self._time("end", _MICRO_NS) or self.now_ns
        start = self._time("start", _MICRO_NS)
        return _check_window(max(end - LOOKBACK_NS, 0) if start is None else start, end)

    def list_window(self) -> Window:
        """Return the time range of services and operations, in whole minutes, so that lists can be cached."""
        minute = 60 * 10**9
        plain = Parameters(self.pairs, -(-self.now_ns // minute) * minute)
        return plain.window()

    def dependency_window(self) -> Window:
        """Return the time range of dependencies: `lookback` before `endTs`, in milliseconds, by default a day."""
        end = self._time("endTs", _MILLI_NS) or self.now_ns
        lookback = self._time("lookback", _MILLI_NS)
        return _check_window(max(end - (DAY_NS if lookback is None else lookback), 0), end)

    def _time(self, given: str, unit_ns: int) -> int | None:
        name, text = self._find(given)
        if not text:
            return None
        if self.is_v3:
            return _parse_date(name, text)
        if not _NUMBER.fullmatch(text) or int(text) * unit_ns > _MAX_NS:
            unit = "microseconds" if unit_ns == _MICRO_NS else "milliseconds"
            raise BadRequest(f"{name} is {text[:100]!r}, expected {unit}")
        return int(text) * unit_ns

    def limit(self) -> int:
        """Return the largest number of traces."""
        name, text = self._find("limit")
        if text and not re.fullmatch(r"[0-9]{1,9}", text):
            raise BadRequest(f"{name} is {text[:100]!r}, expected a number of traces")
        return min(int(text or 0) or DEFAULT_TRACES, MAX_TRACES)

    def trace_ids(self) -> list[str]:
        """Return the ids of a search by `traceID`, without repetitions."""
        found = [text for name, text in self.pairs if name == "traceID"]
        if len(found) > MAX_IDS:
            raise BadRequest(f"traceID is given {len(found)} times, expected at most {MAX_IDS}")
        return list(dict.fromkeys(map(_parse_id, found)))

    def trace_id(self) -> str:
        """Return the 32 digits of the id in the path."""
        return _parse_id(self.text("trace_id"))

    def query(self) -> Query:
        """Return the search as TraceQL: all conditions hold for one span."""
        conditions = list(self._conditions())
        found: Field = conditions[0] if conditions else Static(Type.BOOL, True)
        for one in conditions[1:]:
            found = Binary("&&", found, one)
        return Query(Pipeline((Filter(found),)))

    def _conditions(self) -> Iterator[Field]:
        if self.text("service") or not self.is_v3:
            yield match_service(self.service())
        if operation := self.text("operation"):
            yield _equals(Attribute("intrinsic", "name"), operation)
        for name, value in self._tags():
            yield match_tag(name, value)
        for name, symbol in (("minDuration", ">="), ("maxDuration", "<=")):
            if self.text(name):
                yield Binary(symbol, Attribute("intrinsic", "duration"), Static(Type.DURATION, self._duration(name)))

    def _tags(self) -> list[tuple[str, str]]:
        """Return the tags of `tags`, a JSON object, and of `tag=NAME:VALUE`."""
        found = []
        known = _V3_NAMES["tags"] if self.is_v3 else ("tags",)
        for name, text in self.pairs:
            if name in known and text:
                found += _read_tags(name, text)
            elif name == "tag" and not self.is_v3:
                key, colon, value = text.partition(":")
                if not (key and colon):
                    raise BadRequest(f"tag is {text[:100]!r}, expected NAME:VALUE")
                found.append((key, value))
        if len(found) > MAX_TAGS:
            raise BadRequest(f"the search has {len(found)} tags, expected at most {MAX_TAGS}")
        return found

    def _duration(self, given: str) -> int:
        name, text = self._find(given)
        try:
            found = parse_go_duration(text[:100])
        except UnitError:
            found = -1
        if found < 0:
            raise BadRequest(f"{name} is {text[:100]!r}, expected a duration such as 1.2s or 100ms")
        return found


def match_service(name: str) -> Field:
    """Return the condition that a span is of a service."""
    attribute = Attribute("resource", "service.name")
    return Existence(attribute, is_absent=True) if name == NO_SERVICE else _equals(attribute, name)


def match_tag(name: str, value: str) -> Field:
    """Return the condition of a tag: an attribute of span, resource, event or scope, or what Jaeger adds.

    The text matches numbers and booleans too.
    """
    if name == "error" and value in {"true", "false"}:
        marked = _match_attribute(name, value)
        failed = Binary("=", Attribute("intrinsic", "status"), Static(Type.STATUS, STATUSES["error"]))
        return Binary("||", failed, marked) if value == "true" else marked
    if name == "span.kind" and value in KINDS:
        return Binary("=", Attribute("intrinsic", "kind"), Static(Type.KIND, KINDS[value]))
    if name == "otel.status_code" and value.lower() in STATUSES:
        return Binary("=", Attribute("intrinsic", "status"), Static(Type.STATUS, STATUSES[value.lower()]))
    if name in {"otel.scope.name", "otel.library.name"}:
        return _equals(Attribute("intrinsic", "instrumentation:name"), value)
    if name == "event":
        return Binary("||", _equals(Attribute("intrinsic", "event:name"), value), _match_attribute(name, value))
    return _match_attribute(name, value)


def _match_attribute(name: str, value: str) -> Field:
    wanted = [Static(Type.STRING, value)]
    if value in {"true", "false"}:
        wanted.append(Static(Type.BOOL, value == "true"))
    elif _DECIMAL.fullmatch(value):
        wanted.append(Static(Type.FLOAT, float(value)) if "." in value else Static(Type.INT, int(value)))
    first, *others = (Binary("=", Attribute(scope, name), one) for scope in _TAG_SCOPES for one in wanted)
    return reduce(partial(Binary, "||"), others, first)


def _equals(attribute: Attribute, text: str) -> Field:
    return Binary("=", attribute, Static(Type.STRING, text))


def _read_tags(name: str, text: str) -> list[tuple[str, str]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise BadRequest(f"{name} is {text[:100]!r}, expected a JSON object of texts")
    return list(found.items())


def _parse_id(text: str) -> str:
    if not _TRACE_ID.fullmatch(text):
        raise BadRequest(f"the trace id is {text[:100]!r}, expected at most 32 hexadecimal digits")
    return text.lower().rjust(32, "0")


def _parse_date(name: str, text: str) -> int:
    try:
        # An address that was not encoded has a blank for the `+` of the time zone.
        moment = datetime.fromisoformat(text.replace(" ", "+"))
        found = round(moment.timestamp() * 1_000_000) * 1000 if moment.tzinfo else -1
    except (ValueError, OverflowError):
        found = -1
    if not 0 <= found <= _MAX_NS:
        raise BadRequest(f"{name} is {text[:100]!r}, expected a time of RFC 3339")
    return found


def _check_window(start: int, end: int) -> Window:
    if end <= start:
        raise BadRequest(f"the time range ends ({end} ns) before it starts ({start} ns)")
    return Window(start, end)
