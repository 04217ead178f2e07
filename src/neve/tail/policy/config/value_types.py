"""Types of values in a policy file, with the collector's conversions.

Values keep their type: no text for a number, no number for a text. Durations are written as in Go: 30s, 1m30s, 1.5h,
250ms.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

NANOS_PER_UNIT = {
    "ns": 1,
    "us": 1000,
    "\u00b5s": 1000,
    "\u03bcs": 1000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
}
MAX_NANOS = (1 << 63) - 1  # nanoseconds, about 292 years
EXPECTED_DURATION = "a duration such as 30s, 1m30s or 250ms"
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)", re.ASCII)


def parse_nanoseconds(text: str) -> int:
    """Parse a duration in nanoseconds, or raise `ValueError`.

    >>> parse_nanoseconds("1m30s")
    90000000000
    """
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total, at = Decimal(0), 0
    while found := _DURATION_PART.match(rest, at):
        total += int(Decimal(found[1]) * NANOS_PER_UNIT[found[2]])
        at = found.end()
    if not rest or at != len(rest) or total > MAX_NANOS:
        raise ValueError(f"got {text!r}, expected {EXPECTED_DURATION}")
    return sign * int(total)


def parse_seconds(text: str) -> float:
    """Parse a duration in seconds.

    >>> parse_seconds("1.5h")
    5400.0
    """
    return parse_nanoseconds(text) / 1_000_000_000


INT64 = 1 << 63
INT32 = 1 << 31


def _to_whole_number(value: Any) -> Any:
    """Convert a whole float such as 5.0 to an integer, as the collector does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _to_seconds(value: Any) -> Any:
    """Convert a duration to seconds, with a bare number as nanoseconds, as in Go."""
    if isinstance(value, str):
        return parse_seconds(value)
    if type(value) is int:
        return value / 1_000_000_000
    raise ValueError(f"got {value!r}, expected {EXPECTED_DURATION}")


Whole = Annotated[int, BeforeValidator(_to_whole_number), Field(ge=-INT64, lt=INT64)]
Count = Annotated[int, BeforeValidator(_to_whole_number), Field(ge=0, lt=INT64)]
Small = Annotated[int, BeforeValidator(_to_whole_number), Field(ge=-INT32, lt=INT32)]
Seconds = Annotated[float, BeforeValidator(_to_seconds), Field(ge=0, allow_inf_nan=False)]
Word = Annotated[str, Field(min_length=1)]
Listed = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
Texts = Annotated[tuple[str, ...], Listed]
SomeTexts = Annotated[tuple[str, ...], Listed, Field(min_length=1)]
