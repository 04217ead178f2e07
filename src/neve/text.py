"""Format bytes, counts, dollars, shares, durations and ages for people.

There is one system of units: decimal, as the SI defines it (1 kB = 1000 bytes, 1 MB = 1000 kB). Sizes and durations
have three significant digits, and an amount that is not zero is never shown as zero. Programs read `--json` and
metrics, which are not rounded.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
SHORTEST_SECONDS = 0.001
SMALLEST_PERCENT = 0.01
# The limit below which a unit is used, the seconds in the unit, and its symbol: 119 s, but 2.02 min for 121 s.
DURATION_UNITS = (
    (1.0, 0.001, "ms"),
    (120.0, 1.0, "s"),
    (7_200.0, 60.0, "min"),
    (172_800.0, 3_600.0, "h"),
    (float("inf"), 86_400.0, "d"),
)
VOWELS = "aeiou"
SIBILANTS = ("s", "x", "z", "ch", "sh")


def format_bytes(count: float) -> str:
    """Format a size in decimal units.

    >>> format_bytes(0), format_bytes(999), format_bytes(123_456), format_bytes(512 * 1024 * 1024)
    ('0 B', '999 B', '123 kB', '537 MB')
    >>> format_bytes(999_999), format_bytes(-1_500)
    ('1 MB', '-1.5 kB')
    """
    value, unit = _round(abs(count)), 0
    while value >= 1000 and unit < len(BYTE_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{'-' if count < 0 else ''}{_format_number(value)} {BYTE_UNITS[unit]}"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun.

    >>> format_count(1, "row"), format_count(2000, "row"), format_count(2, "query"), format_count(0, "larger one")
    ('1 row', '2,000 rows', '2 queries', '0 larger ones')
    """
    return f"{count:,} {pluralize(noun, count, plural)}"


def pluralize(noun: str, count: int, plural: str = "") -> str:
    """Return the form of a noun that agrees with a count; `plural` is for irregular nouns.

    >>> pluralize("batch", 2), pluralize("batch", 1), pluralize("file of deletes", 2), pluralize("index", 2, "indices")
    ('batches', 'batch', 'files of deletes', 'indices')
    """
    if count == 1:
        return noun
    if plural:
        return plural
    head, of, rest = noun.partition(" of ")
    if head.endswith("y") and head[-2:-1] not in VOWELS:
        return f"{head[:-1]}ies{of}{rest}"
    return f"{head}{'es' if head.endswith(SIBILANTS) else 's'}{of}{rest}"


def format_dollars(dollars: float) -> str:
    """Format an amount of dollars: in cents, and below ten cents with two significant digits.

    >>> format_dollars(1234.567), format_dollars(0.5), format_dollars(0.00012), format_dollars(0)
    ('$1,234.57', '$0.50', '$0.00012', '$0')
    >>> format_dollars(-3)
    '-$3.00'
    """
    sign, amount = "-" if dollars < 0 else "", abs(dollars)
    return f"{sign}${amount:,.2f}" if amount >= 0.1 else f"{sign}${Decimal(f'{amount:.2g}'):f}"


def format_share(share: float) -> str:
    """Format a share of a whole in percent.

    >>> format_share(0.123), format_share(-0.004), format_share(0), format_share(1e-9)
    ('12 %', '-0.4 %', '0 %', '< 0.01 %')
    """
    percent = 100 * share
    if 0 < abs(percent) < SMALLEST_PERCENT:
        return f"< {SMALLEST_PERCENT} %" if share > 0 else f"> -{SMALLEST_PERCENT} %"
    return f"{percent:.0f} %" if abs(percent) >= 1 else f"{percent:.2g} %"


def format_duration(length: float | timedelta | None) -> str:
    """Format a duration in seconds; empty if it is unknown.

    >>> format_duration(42), format_duration(timedelta(minutes=10)), format_duration(90_000), format_duration(900_000)
    ('42 s', '10 min', '25 h', '10.4 d')
    >>> format_duration(0.0315), format_duration(1e-6), format_duration(0), format_duration(None)
    ('31.5 ms', '< 1 ms', '0 s', '')
    """
    if length is None:
        return ""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    sign, value = "-" if seconds < 0 else "", _round(abs(seconds))
    if not value:
        return "0 s"
    if value < SHORTEST_SECONDS:
        return "< 1 ms"
    size, symbol = next((size, symbol) for limit, size, symbol in DURATION_UNITS if value < limit)
    return f"{sign}{_format_number(_round(abs(seconds) / size))} {symbol}"  # rounded once: twice adds up


def format_age(moment: datetime | None, now: datetime) -> str:
    """Format the time since a moment in whole seconds; empty if there was none, and zero if it is yet to come.

    The moment and the present may come from clocks that differ by more than a fraction of a second.
    """
    return format_duration(max(0, (now - moment) // timedelta(seconds=1))) if moment else ""


def _round(value: float) -> float:
    """Round to three significant digits."""
    return float(f"{value:.3g}")


def _format_number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
