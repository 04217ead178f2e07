"""Numbers, durations and sizes in lines, as Go's `strconv`, `time` and the package `humanize` read them."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from neve.lexical.literals import quote

__all__ = ["UnitError", "parse_bytes", "parse_float", "parse_go_duration"]

_NANOS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_MAX_NANOS = 1 << 63
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?[0-9]+")
_SPECIAL = re.compile(r"([+-]?)(inf(?:inity)?|nan)", re.IGNORECASE)
_SIZE = re.compile(r"([0-9.,]*)(.*)", re.DOTALL)
_LETTERS = "kmgtpe"
_SIZES = {"": 1, "b": 1}
for _power, _letter in enumerate(_LETTERS, 1):
    _SIZES |= dict.fromkeys((_letter, f"{_letter}b"), 1000**_power)
    _SIZES |= dict.fromkeys((f"{_letter}i", f"{_letter}ib"), 1024**_power)


class UnitError(ValueError):
    """Raised when a text is no number, duration or size."""


def parse_float(text: str) -> float:
    """Return a number as Go parses it.

    >>> parse_float("1e3"), parse_float("-.5"), parse_float("+Inf")
    (1000.0, -0.5, inf)
    """
    special = _SPECIAL.fullmatch(text)
    if special:
        if special[2].lower() == "nan":
            if special[1]:
                raise UnitError(f"strconv.ParseFloat: parsing {quote(text)}: invalid syntax")
            return math.nan
        return -math.inf if special[1] == "-" else math.inf
    if _DECIMAL.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            raise UnitError(f"strconv.ParseFloat: parsing {quote(text)}: value out of range")
        return value
    if _HEXADECIMAL.fullmatch(text):
        return float.fromhex(text.replace("_", ""))
    raise UnitError(f"strconv.ParseFloat: parsing {quote(text)}: invalid syntax")


def parse_go_duration(text: str) -> int:
    """Return a duration in nanoseconds.

    >>> parse_go_duration("1h1.5s"), parse_go_duration("-2us"), parse_go_duration("0")
    (3601500000000, -2000, 0)
    """
    rest, sign = text, 1
    if rest[:1] in {"+", "-"}:
        sign, rest = (-1 if rest[0] == "-" else 1), rest[1:]
    if rest == "0":
        return 0
    if not rest:
        raise UnitError(f"time: invalid duration {quote(text)}")
    total = Fraction(0)
    at = 0
    while at < len(rest):
        found = _PART.match(rest, at)
        if found is None or not (found[1] or found[2]):
            raise UnitError(f"time: invalid duration {quote(text)}")
        if not found[3]:
            raise UnitError(f"time: missing unit in duration {quote(text)}")
        if found[3] not in _NANOS:
            raise UnitError(f"time: unknown unit {quote(found[3])} in duration {quote(text)}")
        fraction = Fraction(int(found[2]), 10 ** len(found[2])) if found[2] else Fraction(0)
        total += int(int(found[1] or 0) * _NANOS[found[3]] + fraction * _NANOS[found[3]])
        at = found.end()
    if total >= _MAX_NANOS:
        raise UnitError(f"time: invalid duration {quote(text)}")
    return sign * int(total)


def parse_bytes(text: str) -> int:
    """Return a size in bytes.

    >>> parse_bytes("1.5 kB"), parse_bytes("2MiB"), parse_bytes("1,000")
    (1500, 2097152, 1000)
    """
    found = _SIZE.match(text)
    number, unit = (found[1], found[2].strip().lower()) if found else ("", "")
    value = parse_float(number.replace(",", ""))
    if unit not in _SIZES:
        raise UnitError(f"unhandled size name: {unit}")
    size = value * _SIZES[unit]
    if not size < 1 << 64:
        raise UnitError(f"too large: {text}")
    return int(size)
