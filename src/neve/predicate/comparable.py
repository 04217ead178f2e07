"""Values in a form that compares as a column of an Iceberg type does: integers, floats, fractions or bytes."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import isnan
from typing import TYPE_CHECKING, cast
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

from neve.lake.calendar import EPOCH

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType


Comparable = int | float | bytes | Fraction

EPOCH_DAY = date(1970, 1, 1)

TEXT_TYPES = (StringType, BinaryType, FixedType, UUIDType)
REAL_TYPES = (FloatType, DoubleType)
MICROS_TYPES = (TimestampType, TimestamptzType)
NANOS_TYPES = (TimestampNanoType, TimestamptzNanoType)
COMPARABLE_TYPES = (
    BooleanType,
    IntegerType,
    LongType,
    DateType,
    DecimalType,
    *TEXT_TYPES,
    *REAL_TYPES,
    *MICROS_TYPES,
    *NANOS_TYPES,
)


def is_comparable(kind: IcebergType) -> bool:
    """Return whether values of a type can be compared here."""
    return isinstance(kind, COMPARABLE_TYPES)


def to_comparable(kind: IcebergType, value: object) -> Comparable | None:
    """Return a value in the form in which a column of this type compares it.

    Return None if it is not a value of such a column.

    >>> to_comparable(DateType(), date(1970, 1, 3)), to_comparable(DecimalType(9, 2), "1.50")
    (2, 150)
    >>> to_comparable(StringType(), "a")
    b'a'
    """
    try:
        if isinstance(kind, TEXT_TYPES):
            return _to_bytes(kind, value)
        if isinstance(kind, REAL_TYPES):
            number = float(cast("float", value))
            return None if isnan(number) else number
        if isinstance(kind, DateType):
            return _to_whole(_to_days(value))
        if isinstance(kind, (*MICROS_TYPES, *NANOS_TYPES)):
            return _to_whole(_to_epoch(value, 1000 if isinstance(kind, NANOS_TYPES) else 1))
        return _to_whole(_to_scaled(kind, value))
    except (TypeError, ValueError, InvalidOperation, OverflowError):
        return None


def _to_bytes(kind: IcebergType, value: object) -> bytes | None:
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, str):
        return UUID(value).bytes if isinstance(kind, UUIDType) else value.encode()
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else None


def _to_days(value: object) -> object:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        midnight = datetime.combine(value.date(), time(), value.tzinfo)
        whole = Fraction((value - midnight).total_seconds()) / 86_400
        return (value.date() - EPOCH_DAY).days + whole
    return (value - EPOCH_DAY).days if isinstance(value, date) else value


def _to_epoch(value: object, fineness: int) -> object:
    """Return micro- or nanoseconds since 1970. A time without a zone is in UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time(), UTC)
    if not isinstance(value, datetime):
        return value
    delta = (value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH
    return ((delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds) * fineness


def _to_scaled(kind: IcebergType, value: object) -> object:
    if isinstance(kind, BooleanType) != isinstance(value, bool):
        raise TypeError
    if isinstance(value, str):
        value = Decimal(value)
    return Fraction(cast("float", value)) * 10**kind.scale if isinstance(kind, DecimalType) else value


def _to_whole(value: object) -> int | Fraction:
    exact = Fraction(cast("float", value))
    return exact.numerator if exact.denominator == 1 else exact


def find_successor(prefix: bytes) -> bytes | None:
    r"""Return the first value after all values with a prefix, or None if there is none.

    >>> find_successor(b"ab"), find_successor(b"a\xff"), find_successor(b"\xff")
    (b'ac', b'b', None)
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
