"""Values of literals: cast them, do arithmetic, and convert them to the type of a column.

Results are exact. `UnknownValue` is raised where engines differ or only the engine knows the value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING
from uuid import UUID

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UUIDType,
)
from sqlglot import exp

from neve.lake.calendar import EPOCH
from neve.predicate.times import FIXED_UNITS, MONTH_UNITS, parse_day, parse_time, shift_time, start_of_day

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.types import IcebergType

    from neve.predicate.filters import Value


DATES = {exp.DType.DATE, exp.DType.DATE32}
TIMESTAMPS = {
    *(exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ),
    *(exp.DType.DATETIME, exp.DType.DATETIME64, exp.DType.TIMESTAMP_NS, exp.DType.TIMESTAMP_MS, exp.DType.TIMESTAMP_S),
}
TEXTS = exp.DataType.TEXT_TYPES
INTEGERS = exp.DataType.INTEGER_TYPES
BINARIES = {exp.DType.BINARY, exp.DType.VARBINARY}
MAX_DIGITS = 400  # of a number: parsing of more digits is slower than linear in Python


class UnknownValue(Exception):
    """Raised when only the engine can evaluate an expression."""


@dataclass(frozen=True)
class Constant:
    """A value of a query, None for NULL. `high` differs from `low` if the value depends on the clock."""

    low: Value | None
    high: Value | None

    @classmethod
    def of(cls, value: Value | None) -> Constant:
        """Return a constant of one value."""
        return cls(value, value)

    @property
    def is_single(self) -> bool:
        """Return whether it has one value."""
        return self.low == self.high


def cast_value(value: Value | None, to: exp.DType) -> Value | None:
    """Cast a value to another type. Raises `UnknownValue` if engines differ."""
    if value is None:
        return None
    if to in DATES:
        return _cast_day(value)
    return _cast_time(value) if to in TIMESTAMPS else _cast_scalar(value, to)


def _cast_scalar(value: Value, to: exp.DType) -> Value:
    found: Value | None = None
    if to in INTEGERS and isinstance(value, str | int):
        found = int(value)
    elif to in exp.DataType.REAL_TYPES and isinstance(value, str | int | Decimal | float):
        found = float(value) if to in exp.DataType.FLOAT_TYPES else Decimal(str(value))
    elif to in BINARIES and isinstance(value, bytes | str):
        found = value if isinstance(value, bytes) else decode_blob(value)
    elif (to in TEXTS and isinstance(value, str)) or (to == exp.DType.BOOLEAN and isinstance(value, bool)):
        found = value
    if found is None:
        raise UnknownValue
    return found


def decode_blob(text: str) -> bytes:
    r"""Decode bytes from text, with DuckDB's escapes.

    >>> decode_blob(r"a\x00")
    b'a\x00'
    """
    return re.sub(rb"\\x([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), text.encode())


def _cast_day(value: Value) -> date:
    found = parse_day(value) if isinstance(value, str) else value
    if isinstance(found, datetime):
        return found.date()
    if not isinstance(found, date):
        raise UnknownValue
    return found


def _cast_time(value: Value) -> datetime:
    if isinstance(value, str):
        found = parse_time(value)
    elif isinstance(value, datetime):
        found = value
    elif isinstance(value, date):
        found = start_of_day(value)
    elif type(value) is int:  # ClickHouse
        found = from_epoch(value, 1)
    else:
        found = None
    if found is None:
        raise UnknownValue
    return found


def from_epoch(value: Value | None, per_second: int) -> datetime:
    """Return a time from the duration since 1970."""
    if not isinstance(value, int | Decimal | float):
        raise UnknownValue
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(value * 1_000_000 / per_second))


def add_interval(value: Value | None, count: int, unit: str | None) -> Value:
    """Add an interval to a time; a negative count subtracts it."""
    moment = _cast_time(value) if isinstance(value, str) else value
    if unit not in {*FIXED_UNITS, *MONTH_UNITS} or not isinstance(moment, date) or unit is None:
        raise UnknownValue
    found = shift_time(moment, count, unit)
    if found is None:
        raise UnknownValue
    return found


def calculate(operation: Callable[[Decimal, Decimal], Decimal], first: Value | None, second: Value | None) -> Value:
    """Apply an arithmetic operation to two numbers."""
    numbers = [one for one in (first, second) if isinstance(one, int | Decimal) and not isinstance(one, bool)]
    if len(numbers) < 2:
        raise UnknownValue
    found = operation(Decimal(numbers[0]), Decimal(numbers[1]))
    return int(found) if all(isinstance(one, int) for one in numbers) else found


def parse_number(text: str) -> Value:
    """Parse a number exactly."""
    if len(text) > MAX_DIGITS:
        raise UnknownValue
    try:
        return int(text) if text.isdigit() else Decimal(text.replace("_", ""))
    except InvalidOperation:
        raise UnknownValue from None


TIME_TYPES = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
INTEGER_TYPES = (IntegerType, LongType)
MIN_EPOCH_MICROS = 10**11  # as seconds, this is the year 5138


def convert_to_type(value: Value, of: IcebergType | None) -> Value:
    """Convert a value to the type of its column.

    Raises `UnknownValue` if the engine would convert the column instead.
    """
    if of is None:
        return value
    read = _CONVERTERS.get(type(of))
    if read is None:
        raise UnknownValue
    try:
        return read(value)
    except (ValueError, InvalidOperation, OverflowError) as error:
        raise UnknownValue from error


def _to_time(value: Value) -> Value:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return start_of_day(value)
    if type(value) is int:  # seconds in ClickHouse, microseconds in Spark's plans
        return EPOCH + timedelta(microseconds=value if abs(value) >= MIN_EPOCH_MICROS else value * 1_000_000)
    found = parse_time(value) if isinstance(value, str) else None
    if found is None:
        raise UnknownValue
    return found


def _to_day(value: Value) -> Value:
    """Convert a value to a day.

    A time within a day stays a time, because it is between two days. Text always becomes a day.
    """
    if type(value) is int:
        return EPOCH.date() + timedelta(days=value)
    moment = parse_day(value) if isinstance(value, str) else value
    if isinstance(moment, datetime):
        return moment.date() if moment == start_of_day(moment.date()) else moment
    if not isinstance(moment, date):
        raise UnknownValue
    return moment


def _to_decimal(value: Value) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise UnknownValue
    found = Decimal(value) if isinstance(value, str) else Decimal(str(value))
    if not found.is_finite():
        raise UnknownValue
    return found


def _to_integer(value: Value) -> Value:
    """Convert a value to an integer; a fraction stays one, because it is between two integers."""
    if type(value) is int:
        return value
    found = _to_decimal(value)
    return int(found) if found == found.to_integral_value() else found


def _to_boolean(value: Value) -> Value:
    if isinstance(value, bool):
        return value
    if value in (0, 1):
        return bool(value)
    raise UnknownValue


def _to_text(value: Value) -> Value:
    if not isinstance(value, str):
        raise UnknownValue
    return value


def _to_binary(value: Value) -> Value:
    if isinstance(value, str):
        return decode_blob(value)
    if not isinstance(value, bytes):
        raise UnknownValue
    return value


def _to_uuid(value: Value) -> Value:
    if isinstance(value, bytes):
        return value
    return UUID(_to_text(value)).bytes  # type: ignore[arg-type]


_CONVERTERS: dict[type[IcebergType], Callable[[Value], Value]] = {
    **dict.fromkeys(TIME_TYPES, _to_time),
    **dict.fromkeys(INTEGER_TYPES, _to_integer),
    DateType: _to_day,
    DecimalType: _to_decimal,
    DoubleType: lambda value: float(_to_decimal(value)),
    FloatType: lambda value: float(_to_decimal(value)),
    BooleanType: _to_boolean,
    StringType: _to_text,
    BinaryType: _to_binary,
    FixedType: _to_binary,
    UUIDType: _to_uuid,
}
