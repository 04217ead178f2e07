"""Literals as values of the column that they are compared with."""

from __future__ import annotations

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

from neve.autopilot.parse.moments import day_of, midnight, moment_of
from neve.autopilot.parse.values import Unknown, blob

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.types import IcebergType

    from neve.autopilot.workload import Value

TIMES = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
WHOLE = (IntegerType, LongType)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MICROS = 10**11  # as seconds, that is the year 5138


def typed(value: Value, of: IcebergType | None) -> Value:
    """A value in the type of its column; raises `Unknown` where the engine would convert the column instead."""
    if of is None:
        return value
    read = _READERS.get(type(of))
    if read is None:
        raise Unknown
    try:
        return read(value)
    except (ValueError, InvalidOperation, OverflowError) as error:
        raise Unknown from error


def _moment(value: Value) -> Value:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return midnight(value)
    if type(value) is int:  # seconds in ClickHouse, microseconds in Spark's plans
        return EPOCH + timedelta(microseconds=value if abs(value) >= FIRST_MICROS else value * 1_000_000)
    found = moment_of(value) if isinstance(value, str) else None
    if found is None:
        raise Unknown
    return found


def _day(value: Value) -> Value:
    """A day; a time within a day stays one, as it lies between two days, but not if it is text: that becomes a day."""
    if type(value) is int:
        return EPOCH.date() + timedelta(days=value)
    moment = day_of(value) if isinstance(value, str) else value
    if isinstance(moment, datetime):
        return moment.date() if moment == midnight(moment.date()) else moment
    if not isinstance(moment, date):
        raise Unknown
    return moment


def _number(value: Value) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise Unknown
    found = Decimal(value) if isinstance(value, str) else Decimal(str(value))
    if not found.is_finite():
        raise Unknown
    return found


def _integer(value: Value) -> Value:
    """A whole number; a fraction stays one, as it lies between two of them."""
    if type(value) is int:
        return value
    found = _number(value)
    return int(found) if found == found.to_integral_value() else found


def _boolean(value: Value) -> Value:
    if isinstance(value, bool):
        return value
    if value in (0, 1):
        return bool(value)
    raise Unknown


def _text(value: Value) -> Value:
    if not isinstance(value, str):
        raise Unknown
    return value


def _binary(value: Value) -> Value:
    if isinstance(value, str):
        return blob(value)
    if not isinstance(value, bytes):
        raise Unknown
    return value


def _uuid(value: Value) -> Value:
    if isinstance(value, bytes):
        return value
    return UUID(_text(value)).bytes  # type: ignore[arg-type]


_READERS: dict[type[IcebergType], Callable[[Value], Value]] = {
    **dict.fromkeys(TIMES, _moment),
    **dict.fromkeys(WHOLE, _integer),
    DateType: _day,
    DecimalType: _number,
    DoubleType: lambda value: float(_number(value)),
    FloatType: lambda value: float(_number(value)),
    BooleanType: _boolean,
    StringType: _text,
    BinaryType: _binary,
    FixedType: _binary,
    UUIDType: _uuid,
}
