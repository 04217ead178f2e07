"""Parameters of Tempo's HTTP API: times, steps, limits, queries, and the older search by tags."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.errors import InvalidExpression
from neve.lexical.literals import LiteralError, parse_time, scan_string, unquote
from neve.lexical.units import UnitError, parse_go_duration
from neve.traceql.language.fields import STATUSES, Attribute, Binary, Static, Type
from neve.traceql.language.parser import parse
from neve.traceql.language.syntax import Filter, Pipeline, Query
from neve.traceql.metrics.intervals import MAX_INTERVALS, Intervals, choose_step
from neve.traceql.storage.span_reader import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.traceql.language.fields import Field

__all__ = ["BadRequest", "Parameters", "parse_time_ns"]

SECOND_NS = 10**9
DEFAULT_RANGE_NS = 3600 * SECOND_NS
_NANOSECONDS = re.compile(r"[0-9]{13,19}")
_COUNT = re.compile(r"[0-9]{1,9}")
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_TRACE_ID = re.compile(r"[0-9a-fA-F]{1,32}")
_WORD = re.compile(r"[^\s=\"]+")
_MAX_NS = (1 << 63) - 1
# Tags of the older search that are no attributes.
_TAGS = {
    "name": Attribute("intrinsic", "name"),
    "root.name": Attribute("intrinsic", "rootName"),
    "root.service.name": Attribute("intrinsic", "rootServiceName"),
    "status.code": Attribute("intrinsic", "status"),
}


class BadRequest(InvalidExpression):
    """Raised when a parameter is missing or malformed."""


def parse_time_ns(text: str) -> int | None:
    """Return a time in nanoseconds: an integer of 13 digits or more, seconds, or RFC 3339.

    >>> parse_time_ns("1760000000"), parse_time_ns("1760000000123456789"), parse_time_ns("soon")
    (1760000000000000000, 1760000000123456789, None)
    """
    if _NANOSECONDS.fullmatch(text):
        return int(text)
    found = parse_time(text)
    return None if found is None else found * 1_000_000


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a request by name."""

    pairs: Sequence[tuple[str, str]]
    now_ns: int
    _values: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_values", dict(reversed(self.pairs)))

    def text(self, name: str) -> str:
        """Return a parameter, or "" if it is missing."""
        return self._values.get(name, "")

    def time(self, name: str, default: int) -> int:
        """Return a time in nanoseconds."""
        text = self.text(name)
        if not text or text == "0":
            return default
        found = parse_time_ns(text)
        if found is None or not 0 <= found <= _MAX_NS:
            raise BadRequest(f"{name} is {text[:100]!r}, expected seconds, nanoseconds or a time of RFC 3339")
        return found

    def duration(self, name: str) -> int:
        """Return a duration in nanoseconds: seconds, or with units."""
        text = self.text(name)
        found = 0
        if _SECONDS.fullmatch(text) and len(text) <= 20:  # digits of a sensible number
            found = round(float(text) * SECOND_NS)
        with suppress(UnitError):
            found = found or parse_go_duration(text)
        if not 0 < found <= _MAX_NS:
            raise BadRequest(f"{name} is {text[:100]!r}, expected a duration such as 30s")
        return found

    def count(self, name: str, default: int, most: int) -> int:
        """Return a number of items. Larger ones than `most` mean `most`."""
        text = self.text(name)
        if not text:
            return default
        if not _COUNT.fullmatch(text):
            raise BadRequest(f"{name} is {text[:100]!r}, expected a number")
        return min(int(text), most)

    def window(self) -> Window:
        """Return the time range: without a start, the hour or the duration `since` before its end."""
        end = self.time("end", self.now_ns)
        since = self.duration("since") if self.text("since") else DEFAULT_RANGE_NS
        start = self.time("start", min(end, self.now_ns) - since)
        if end <= start:
            raise BadRequest(f"the time range ends ({end}) before it starts ({start})")
        return Window(start, end)

    def intervals(self) -> Intervals:
        """Return the intervals of a range query."""
        window = self.window()
        step = self.duration("step") if self.text("step") else choose_step(window.start_ns, window.end_ns)
        found = Intervals.align(window.start_ns, window.end_ns, step)
        if found.count > MAX_INTERVALS:
            raise BadRequest(
                f"the range has {found.count:,} steps, expected at most {MAX_INTERVALS:,}", hint="choose a longer step"
            )
        return found

    def query(self) -> Query:
        """Return the query, or that of the older parameters `tags`, `minDuration` and `maxDuration`."""
        text = self.text("q") or self.text("query")
        if text.strip():
            return parse(text)
        conditions = [*_read_tags(self.text("tags")), *self._read_durations()]
        if not conditions:
            return parse("{ }")
        condition = conditions[0]
        for one in conditions[1:]:
            condition = Binary("&&", condition, one)
        return Query(Pipeline((Filter(condition),)))

    def _read_durations(self) -> Iterator[Field]:
        for name, symbol in (("minDuration", ">="), ("maxDuration", "<=")):
            if self.text(name):
                limit = Static(Type.DURATION, self.duration(name))
                yield Binary(symbol, Attribute("intrinsic", "traceDuration"), limit)

    def trace_id(self) -> str:
        """Return the 32 digits of a trace id. Shorter ones lack zeros at their beginning."""
        text = self.text("trace_id")
        if not _TRACE_ID.fullmatch(text):
            raise BadRequest(f"the trace id is {text[:100]!r}, expected at most 32 hexadecimal digits")
        return text.lower().rjust(32, "0")

    def lenient_filter(self) -> Field | None:
        """Return the condition of `q` for lists: of a query that is not complete, the parts that are."""
        text = self.text("q").strip()
        if not text:
            return None
        inside = text.removeprefix("{").split("}")[0]
        found: Field | None = None
        for part in inside.split("&&")[:20]:
            with suppress(InvalidExpression):
                root = parse(f"{{ {part} }}").root
                if isinstance(root, Pipeline) and isinstance(root.elements[0], Filter):
                    condition = root.elements[0].condition
                    found = condition if found is None else Binary("&&", found, condition)
        return found


def _read_tags(text: str) -> Iterator[Field]:
    """Yield the conditions of tags in logfmt: `service.name=cart http.status_code=500`."""
    at = 0
    while at < len(text):
        name = _WORD.match(text, at)
        if name is None:
            at += 1
            continue
        at = name.end()
        value, at = _read_tag_value(text, at + 1) if text[at : at + 1] == "=" else ("", at)
        yield _match_tag(name[0], value)


def _read_tag_value(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] == '"':
        try:
            end = scan_string(text, at)
            return unquote(text[at:end]), end
        except LiteralError as error:
            raise BadRequest(f"tags are {text[:100]!r}: {error}") from None
    word = _WORD.match(text, at)
    return (word[0], word.end()) if word else ("", at)


def _match_tag(name: str, value: str) -> Field:
    """Return the condition of a tag. A number matches as a text too."""
    attribute = _TAGS.get(name, Attribute("", name))
    if name == "error" and value == "true":
        return Binary("=", Attribute("intrinsic", "status"), Static(Type.STATUS, STATUSES["error"]))
    if attribute.type is Type.STATUS:
        if value not in STATUSES:
            raise BadRequest(f"status.code is {value[:100]!r}, expected one of {', '.join(STATUSES)}")
        return Binary("=", attribute, Static(Type.STATUS, STATUSES[value]))
    plain = Binary("=", attribute, Static(Type.STRING, value))
    if attribute.scope == "intrinsic":
        return plain
    if _SECONDS.fullmatch(value) and len(value) <= 18:  # digits of a number of 64 bits
        number = Static(Type.FLOAT, float(value)) if "." in value else Static(Type.INT, int(value))
        return Binary("||", plain, Binary("=", attribute, number))
    if value in {"true", "false"}:
        return Binary("||", plain, Binary("=", attribute, Static(Type.BOOL, value == "true")))
    return plain
