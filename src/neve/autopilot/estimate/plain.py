"""Values of any type as what compares as they do: whole numbers, fractions or bytes."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
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

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

Plain = int | float | bytes | Fraction
Values = npt.NDArray[Any] | list[Any]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_DAY = date(1970, 1, 1)
NARROW_DIGITS = 18  # decimals of no more fit into 64 bits

TEXT = (StringType, BinaryType, FixedType, UUIDType)
REAL = (FloatType, DoubleType)
MICROS = (TimestampType, TimestamptzType)
NANOS = (TimestampNanoType, TimestamptzNanoType)
KNOWN = (BooleanType, IntegerType, LongType, DateType, DecimalType, *TEXT, *REAL, *MICROS, *NANOS)


def is_known(kind: IcebergType) -> bool:
    """Whether values of a type can be compared here."""
    return isinstance(kind, KNOWN)


def plain(kind: IcebergType, value: object) -> Plain | None:
    """A value as a column of this type compares it; none where it is no value of such a column.

    >>> plain(DateType(), date(1970, 1, 3)), plain(DecimalType(9, 2), "1.50"), plain(StringType(), "a")
    (2, 150, b'a')
    """
    try:
        if isinstance(kind, TEXT):
            return _bytes(kind, value)
        if isinstance(kind, REAL):
            number = float(cast("float", value))
            return None if np.isnan(number) else number
        if isinstance(kind, DateType):
            return _whole(_days(value))
        if isinstance(kind, (*MICROS, *NANOS)):
            return _whole(_moment(value, 1000 if isinstance(kind, NANOS) else 1))
        return _whole(_scaled(kind, value))
    except (TypeError, ValueError, InvalidOperation, OverflowError):
        return None


def _bytes(kind: IcebergType, value: object) -> bytes | None:
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, str):
        return UUID(value).bytes if isinstance(kind, UUIDType) else value.encode()
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else None


def _days(value: object) -> object:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        midnight = datetime.combine(value.date(), time(), value.tzinfo)
        whole = Fraction((value - midnight).total_seconds()) / 86_400
        return (value.date() - FIRST_DAY).days + whole
    return (value - FIRST_DAY).days if isinstance(value, date) else value


def _moment(value: object, fineness: int) -> object:
    """Micro- or nanoseconds since 1970; a moment without a zone is one of UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time(), UTC)
    if not isinstance(value, datetime):
        return value
    delta = (value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH
    return ((delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds) * fineness


def _scaled(kind: IcebergType, value: object) -> object:
    if isinstance(kind, BooleanType) != isinstance(value, bool):
        raise TypeError
    if isinstance(value, str):
        value = Decimal(value)
    return Fraction(cast("float", value)) * 10**kind.scale if isinstance(kind, DecimalType) else value


def _whole(value: object) -> int | Fraction:
    exact = Fraction(cast("float", value))
    return exact.numerator if exact.denominator == 1 else exact


def ranked_values(kind: IcebergType, array: pa.Array) -> tuple[Values, npt.NDArray[np.int64]]:
    """The distinct values of an Arrow array without nulls, as they compare and in order; and each row's among them."""
    if not is_numeric(kind):
        return _by_dictionary(kind, array)
    values, ranks = np.unique(numbers(kind, array), return_inverse=True)
    return values, ranks.astype(np.int64)


def is_numeric(kind: IcebergType) -> bool:
    """Whether values of a type are numbers of 64 bits."""
    return not isinstance(kind, TEXT) and not (isinstance(kind, DecimalType) and kind.precision > NARROW_DIGITS)


def _by_dictionary(kind: IcebergType, array: pa.Array) -> tuple[list[Any], npt.NDArray[np.int64]]:
    encoded = array.dictionary_encode()
    values = [plain(kind, value) for value in encoded.dictionary.to_pylist()]
    order = sorted(range(len(values)), key=values.__getitem__)  # type: ignore[arg-type]
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return [values[place] for place in order], rank[encoded.indices.to_numpy(zero_copy_only=False)]


def numbers(kind: IcebergType, array: pa.Array) -> npt.NDArray[Any]:
    """The values of an Arrow array without nulls, of a numeric type, as they compare."""
    if isinstance(kind, REAL):
        return cast("npt.NDArray[np.float64]", array.cast(pa.float64()).to_numpy(zero_copy_only=False))
    if isinstance(kind, DecimalType):
        whole = np.frombuffer(array.cast(pa.decimal128(38, kind.scale)).buffers()[1], dtype=np.int64)
        return whole[::2][array.offset : array.offset + len(array)]  # the lower half of each, little end first
    if isinstance(kind, DateType):
        array = array.cast(pa.date32()).cast(pa.int32())
    if isinstance(kind, (*MICROS, *NANOS)):
        zone = array.type.tz if pa.types.is_timestamp(array.type) else None
        array = array.cast(pa.timestamp("ns" if isinstance(kind, NANOS) else "us", zone), safe=False)
    return cast("npt.NDArray[np.int64]", array.cast(pa.int64()).to_numpy(zero_copy_only=False))


def successor(prefix: bytes) -> bytes | None:
    r"""The first value after all that begin with a prefix; none where nothing comes after them.

    >>> successor(b"ab"), successor(b"a\xff"), successor(b"\xff")
    (b'ac', b'b', None)
    """
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
