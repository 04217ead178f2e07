"""Parameters of Loki's HTTP API: times, steps, limits, selectors."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from neve.errors import InvalidExpression
from neve.lexical.literals import LiteralError, parse_duration
from neve.logql.engine import MAX_LINES, LogWindow
from neve.logql.language.parser import parse_selector
from neve.logql.language.syntax import LogQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BadRequest", "Parameters", "parse_time"]

SECOND_NS = 1_000_000_000
DEFAULT_RANGE_NS = 3600 * SECOND_NS
DEFAULT_LIMIT = 100
MAX_STEPS = 11_000
MAX_SELECTORS = 20  # each is one or more SQL statements
_MAX_NS = (1 << 63) - 1
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_COUNT = re.compile(r"[0-9]{1,9}")
_FRACTION = re.compile(r"\.([0-9]+)")


class BadRequest(InvalidExpression):
    """Raised when a parameter is missing or malformed."""


def parse_time(text: str) -> int | None:
    """Return a time in nanoseconds: an integer of nanoseconds, or of seconds up to ten digits; decimals; RFC 3339.

    >>> parse_time("4000000000"), parse_time("1.5"), parse_time("1970-01-01T00:00:00.000000001Z")
    (4000000000000000000, 1500000000, 1)
    """
    if _INTEGER.fullmatch(text):
        number = int(text)
        return number * SECOND_NS if len(text) <= 10 else number
    with suppress(ValueError):  # no decimal number: RFC 3339
        seconds = float(text)
        return round(seconds * 1e9) if math.isfinite(seconds) and abs(seconds) < 9e9 else None
    fraction = _FRACTION.search(text)
    plain = _FRACTION.sub("", text, count=1)
    try:
        moment = datetime.fromisoformat(plain)
        if moment.tzinfo is None:
            return None
        digits = fraction[1][:9].ljust(9, "0") if fraction else "0"
        return round(moment.timestamp()) * SECOND_NS + int(digits)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a request by name."""

    pairs: Sequence[tuple[str, str]]
    now_ns: int
    has_categories: bool = False  # labels of streams, lines and parsers apart
    _values: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_values", dict(reversed(self.pairs)))

    def text(self, name: str) -> str:
        """Return a parameter, or "" if it is missing."""
        return self._values.get(name, "")

    def time(self, name: str, default: int) -> int:
        """Return a time in nanoseconds."""
        text = self.text(name)
        if not text:
            return default
        found = parse_time(text)
        if found is None or abs(found) > _MAX_NS:
            raise BadRequest(f"could not parse '{name}' parameter: {text[:100]!r} is not a time")
        return found

    def duration(self, name: str) -> int:
        """Return a duration in nanoseconds: seconds, or with units."""
        text = self.text(name)
        try:
            seconds = float(text)
            found = round(seconds * 1e9) if math.isfinite(seconds) and abs(seconds) < 9e9 else 0
        except ValueError:
            try:
                found = parse_duration(text) * 1_000_000
            except LiteralError:
                raise BadRequest(f'cannot parse "{text[:100]}" to a valid duration') from None
        if found <= 0:
            raise BadRequest(f"{name} is {text[:100]!r}, expected a duration above zero")
        return found

    def count(self, name: str, default: int, most: int) -> int:
        """Return a number of items."""
        text = self.text(name)
        if not text:
            return default
        if not _COUNT.fullmatch(text) or int(text) < 1:
            raise BadRequest(f"{name} is {text[:100]!r}, expected a number from 1 to {most:,}")
        if int(text) > most:
            raise BadRequest(
                f"max entries limit per query exceeded, limit > max_entries_limit_per_query ({int(text)} > {most})"
            )
        return int(text)

    def limit(self) -> int:
        """Return the largest number of lines."""
        return self.count("limit", DEFAULT_LIMIT, MAX_LINES)

    def bounds(self) -> tuple[int, int]:
        """Return start and end. Without a start, the hour or the duration `since` before the end."""
        end = self.time("end", self.now_ns)
        since = self.duration("since") if self.text("since") else DEFAULT_RANGE_NS
        start = self.time("start", min(end, self.now_ns) - since)
        if end <= start:
            raise BadRequest("end timestamp must not be before or equal to start time")
        return start, end

    def window(self) -> LogWindow:
        """Return the time range in the requested direction."""
        direction = (self.text("direction") or "backward").lower()
        if direction not in {"forward", "backward"}:
            raise BadRequest(f"direction is {direction[:100]!r}, expected forward or backward")
        return LogWindow(*self.bounds(), direction == "forward")

    def steps(self) -> tuple[int, int, int]:
        """Return start, end and step of a range query."""
        start, end = self.bounds()
        default = max(-(-(end - start) // (250 * SECOND_NS)) * SECOND_NS, SECOND_NS)
        step = self.duration("step") if self.text("step") else default
        if (end - start) // step > MAX_STEPS:
            raise BadRequest(
                f"exceeded maximum resolution of {MAX_STEPS:,} points per time series. "
                "Try increasing the value of the step parameter"
            )
        return start, end, step

    def query(self) -> LogQuery:
        """Return the log query of a request that needs one."""
        return parse_selector(self.text("query"))

    def optional_query(self) -> LogQuery:
        """Return the log query, or one of all streams."""
        text = self.text("query")
        return parse_selector(text) if text and text != "{}" else LogQuery(())

    def selectors(self) -> list[LogQuery]:
        """Return the selectors of `match[]`, `match` and `query`."""
        texts = [text for name, text in self.pairs if name in {"match[]", "match", "query"} and text not in {"", "{}"}]
        if len(texts) > MAX_SELECTORS:
            raise BadRequest(f"the request has {len(texts)} selectors, at most {MAX_SELECTORS} are allowed")
        return list(dict.fromkeys(parse_selector(text) for text in texts))
