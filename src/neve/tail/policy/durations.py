"""Durations as Go writes them: 30s, 1m30s, 1.5h, 250ms."""

from __future__ import annotations

import re
from decimal import Decimal

NANOSECONDS = {
    "ns": 1,
    "us": 1000,
    "\u00b5s": 1000,
    "\u03bcs": 1000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
}
LONGEST = (1 << 63) - 1  # nanoseconds, about 292 years
EXPECTED = "a duration such as 30s, 1m30s or 250ms"
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)", re.ASCII)


def nanoseconds(text: str) -> int:
    """How long a duration is; raises `ValueError` where it is none.

    >>> nanoseconds("1m30s")
    90000000000
    """
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total, at = Decimal(0), 0
    while found := _PART.match(rest, at):
        total += int(Decimal(found[1]) * NANOSECONDS[found[2]])
        at = found.end()
    if not rest or at != len(rest) or total > LONGEST:
        raise ValueError(f"got {text!r}, expected {EXPECTED}")
    return sign * int(total)


def seconds(text: str) -> float:
    """The same in seconds.

    >>> seconds("1.5h")
    5400.0
    """
    return nanoseconds(text) / 1_000_000_000
