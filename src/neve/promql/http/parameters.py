"""Parameters of Prometheus' HTTP API: times, durations, selectors."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.errors import InvalidExpression
from neve.lexical.literals import LiteralError, parse_duration, parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lexical.matchers import Matcher

__all__ = ["BadData", "Parameters"]

MAX_STEPS = 11_000  # as Prometheus: enough for a point in each pixel
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")
_MAX_MS = 1 << 53  # the largest time that is exact as a float
_MAX_DURATION_MS = (1 << 63) // 1_000_000  # as Prometheus: the nanoseconds are a 64-bit integer
MAX_SELECTORS = 20  # each is one or more SQL statements


class BadData(InvalidExpression):
    """Raised when a parameter is missing or malformed."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a request by name."""

    pairs: Sequence[tuple[str, str]]
    now_ms: int
    deadline: float | None = None  # of the monotonic clock
    _values: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_values", dict(reversed(self.pairs)))

    def text(self, name: str) -> str:
        """Return a parameter, or "" if it is missing."""
        return self._values.get(name, "")

    def time(self, name: str, default: int | None = None) -> int:
        """Return a time in milliseconds: seconds since 1970, or RFC 3339."""
        text = self.text(name)
        if not text:
            if default is None:
                raise BadData(f'invalid parameter "{name}": cannot parse "" to a valid timestamp')
            return default
        found = parse_time(text)
        if found is None or abs(found) > _MAX_MS:
            raise BadData(f'invalid parameter "{name}": cannot parse "{text[:100]}" to a valid timestamp')
        return found

    def duration(self, name: str, most_ms: int = _MAX_DURATION_MS) -> int:
        """Return a duration in milliseconds: seconds, or with units."""
        text = self.text(name)
        try:
            seconds = float(text)
            milliseconds = round(seconds * 1000) if math.isfinite(seconds) else 0
        except ValueError:
            try:
                milliseconds = parse_duration(text)
            except LiteralError:
                raise BadData(f'invalid parameter "{name}": cannot parse "{text[:100]}" to a valid duration') from None
        if milliseconds <= 0:
            words = "query resolution step widths" if name == "step" else "durations"
            raise BadData(f'invalid parameter "{name}": zero or negative {words} are not accepted')
        if milliseconds > most_ms:
            raise BadData(f'invalid parameter "{name}": "{text[:100]}" is longer than {most_ms / 1000:,.0f} seconds')
        return milliseconds

    def steps(self) -> tuple[int, int, int]:
        """Return start, end and step of a range query, in milliseconds."""
        start, end = self.time("start"), self.time("end")
        if end < start:
            raise BadData('invalid parameter "end": end timestamp must not be before start time')
        step = self.duration("step")
        if (end - start) // step > MAX_STEPS:
            raise BadData(
                "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution "
                "(?step=XX)"
            )
        return start, end, step

    def limit(self) -> int:
        """Return the largest number of series or values, 0 for any number."""
        found = self.count("limit", 0)
        if found < 0:
            raise BadData('invalid parameter "limit": limit must be non-negative')
        return found

    def count(self, name: str, default: int = -1) -> int:
        """Return a number of entries."""
        text = self.text(name)
        if text and not _INTEGER.fullmatch(text):
            raise BadData(f'invalid parameter "{name}": {name} must be a number, got "{text[:100]}"')
        return int(text) if text else default

    def selectors(self) -> list[tuple[Matcher, ...]]:
        """Return the matchers of each `match[]`."""
        texts = [text for name, text in self.pairs if name == "match[]"]
        if len(texts) > MAX_SELECTORS:
            raise BadData(f'invalid parameter "match[]": {len(texts)} selectors, at most {MAX_SELECTORS} are allowed')
        # Servers read a timeout without the parser, which takes longer to load than everything else here.
        from neve.promql.language.parser import parse  # noqa: PLC0415  # as said
        from neve.promql.language.syntax import VectorSelector  # noqa: PLC0415  # as said

        found = []
        for text in texts:
            node = parse(text)
            if not isinstance(node, VectorSelector):
                raise BadData('invalid parameter "match[]": expected a series selector')
            found.append(node.all_matchers)
        return found
