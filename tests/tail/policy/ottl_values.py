"""What OTTL says of values, in plain Python."""

from __future__ import annotations

import json
import math
import operator
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Fails(Exception):
    """Raised where OTTL has an error instead of a value."""


@dataclass(frozen=True)
class Id:
    """An id, which equals ids of its kind alone."""

    kind: str
    bytes: bytes


@dataclass(frozen=True)
class Time:
    """A time or a duration, which compares with its kind alone."""

    kind: str
    nanoseconds: int


def is_number(value: Any) -> bool:
    """Whether it is a number; a boolean is none."""
    return type(value) in (int, float)


def compare(left: Any, right: Any, symbol: str) -> bool:
    """By OTTL's rules."""
    left, right = (None if value == b"" and isinstance(value, bytes) else value for value in (left, right))
    if left is None or right is None:
        both = left is None and right is None
        return both if symbol in ("==", "<=", ">=") else not both if symbol == "!=" else False
    if is_number(left) and is_number(right):
        if type(left) is not type(right):
            left, right = float(left), float(right)
        return OPERATORS[symbol](left, right)
    same = type(left) is type(right) and getattr(left, "kind", "") == getattr(right, "kind", "")
    if symbol in ("==", "!="):
        return (same and plain(left) == plain(right)) == (symbol == "==")
    if not same or isinstance(left, list | dict | Id):
        return False
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    return OPERATORS[symbol](plain(left), plain(right))


def plain(value: Any) -> Any:
    """What can be compared of a value."""
    if isinstance(value, list | dict):
        return json.dumps(value)
    return value.nanoseconds if isinstance(value, Time) else value


def go_number(value: float) -> str:
    """A floating-point number as Go's JSON writes it."""
    if not math.isfinite(value):
        raise Fails
    if value and not 1e-6 <= abs(value) < 1e21:
        return repr(value).replace("e-0", "e-")
    return format(Decimal(repr(value)), "f").removesuffix(".0")


def text_of(value: Any) -> str:
    """A value as the text that IsMatch looks at."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return go_number(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def reckon(symbol: str, left: Any, right: Any) -> Any:
    """Two values put together."""
    if isinstance(left, Time) and isinstance(right, Time):
        kinds = (left.kind, symbol, right.kind)
        known = {
            ("time", "-", "time"): "duration",
            ("time", "-", "duration"): "time",
            ("time", "+", "duration"): "time",
        }
        if kinds not in known:
            raise Fails
        signed = right.nanoseconds if symbol == "+" else -right.nanoseconds
        return Time(known[kinds], left.nanoseconds + signed)
    if not is_number(left) or not is_number(right) or (symbol == "/" and right == 0):
        raise Fails
    if type(left) is type(right) is int:
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1) if symbol == "/" else 0
        found = {"+": left + right, "-": left - right, "*": left * right, "/": quotient}[symbol]
        return (found + 2**63) % 2**64 - 2**63
    left, right = float(left), float(right)
    try:
        return {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[symbol](left, right)
    except OverflowError:
        return math.copysign(math.inf, left * right)


def index(value: Any, keys: tuple[str | int, ...]) -> Any:
    """What stands within a value."""
    for key in keys:
        if isinstance(value, dict) and isinstance(key, str):
            if key not in value:
                return None
            value = value[key]
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            raise Fails
    return value


def is_match(value: Any, pattern: str) -> bool:
    """Nil matches nothing."""
    return value is not None and re.search(pattern, text_of(value)) is not None


def length(value: Any) -> int:
    """In bytes, of a text."""
    if not isinstance(value, str | bytes | list | dict):
        raise Fails
    return len(value.encode() if isinstance(value, str) else value)


def has_prefix(value: Any, prefix: str) -> bool:
    """Only a text has one."""
    if not isinstance(value, str):
        raise Fails
    return value.startswith(prefix)
