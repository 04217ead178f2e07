"""Values made of values: casts, sums and moves, exact or not at all."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.autopilot.parse.moments import FIXED, day_of, midnight, moment_of, shifted

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.autopilot.workload import Value

DATES = {exp.DType.DATE, exp.DType.DATE32}
STAMPS = {
    *(exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ),
    *(exp.DType.DATETIME, exp.DType.DATETIME64, exp.DType.TIMESTAMP_NS, exp.DType.TIMESTAMP_MS, exp.DType.TIMESTAMP_S),
}
TEXTS = exp.DataType.TEXT_TYPES
INTEGERS = exp.DataType.INTEGER_TYPES
BINARIES = {exp.DType.BINARY, exp.DType.VARBINARY}
MOST_DIGITS = 400  # of a number: Python takes longer than linear for more


class Unknown(Exception):
    """Raised when an expression has no value that can be told without the engine; never leaves this room."""


def cast(value: Value | None, to: exp.DType) -> Value | None:
    """A value as another type; raises `Unknown` where engines differ."""
    if value is None:
        return None
    if to in DATES:
        return _as_day(value)
    return _as_moment(value) if to in STAMPS else _as_plain(value, to)


def _as_plain(value: Value, to: exp.DType) -> Value:
    found: Value | None = None
    if to in INTEGERS and isinstance(value, str | int):
        found = int(value)
    elif to in exp.DataType.REAL_TYPES and isinstance(value, str | int | Decimal | float):
        found = float(value) if to in exp.DataType.FLOAT_TYPES else Decimal(str(value))
    elif to in BINARIES and isinstance(value, bytes | str):
        found = value if isinstance(value, bytes) else blob(value)
    elif (to in TEXTS and isinstance(value, str)) or (to == exp.DType.BOOLEAN and isinstance(value, bool)):
        found = value
    if found is None:
        raise Unknown
    return found


def blob(text: str) -> bytes:
    r"""Bytes that are written as text, with DuckDB's escapes.

    >>> blob(r"a\x00")
    b'a\x00'
    """
    return re.sub(rb"\\x([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), text.encode())


def _as_day(value: Value) -> date:
    found = day_of(value) if isinstance(value, str) else value
    if isinstance(found, datetime):
        return found.date()
    if not isinstance(found, date):
        raise Unknown
    return found


def _as_moment(value: Value) -> datetime:
    if isinstance(value, str):
        found = moment_of(value)
    elif isinstance(value, datetime):
        found = value
    elif isinstance(value, date):
        found = midnight(value)
    elif type(value) is int:  # ClickHouse
        found = since_epoch(value, 1)
    else:
        found = None
    if found is None:
        raise Unknown
    return found


def since_epoch(value: Value | None, per_second: int) -> datetime:
    """A moment that is told by the time since 1970."""
    if not isinstance(value, int | Decimal | float):
        raise Unknown
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(value * 1_000_000 / per_second))


def moved(value: Value | None, count: int, unit: str | None) -> Value:
    """A moment some units later, or earlier."""
    moment = _as_moment(value) if isinstance(value, str) else value
    if unit not in {*FIXED, "month", "quarter", "year"} or not isinstance(moment, date) or unit is None:
        raise Unknown
    found = shifted(moment, count, unit)
    if found is None:
        raise Unknown
    return found


def calculated(operation: Callable[[Decimal, Decimal], Decimal], first: Value | None, second: Value | None) -> Value:
    """A sum or the like of two numbers."""
    numbers = [one for one in (first, second) if isinstance(one, int | Decimal) and not isinstance(one, bool)]
    if len(numbers) < 2:
        raise Unknown
    found = operation(Decimal(numbers[0]), Decimal(numbers[1]))
    return int(found) if all(isinstance(one, int) for one in numbers) else found


def number(text: str) -> Value:
    """A number as it is written; exact."""
    if len(text) > MOST_DIGITS:
        raise Unknown
    try:
        return int(text) if text.isdigit() else Decimal(text.replace("_", ""))
    except InvalidOperation:
        raise Unknown from None
