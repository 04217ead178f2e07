"""Columns of a table that a workload filters: source, type, and the values of Arrow arrays in comparable form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.io.pyarrow import MetricModeTypes, compute_statistics_plan
from pyiceberg.types import DateType, DecimalType, MapType

from neve.predicate.comparable import (
    MICROS_TYPES,
    NANOS_TYPES,
    REAL_TYPES,
    TEXT_TYPES,
    is_comparable,
    to_comparable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType


ComparableValues = npt.NDArray[Any] | list[Any]
INT64_DIGITS = 18  # decimals of at most this many digits fit into 64 bits


def rank_values(kind: IcebergType, array: pa.Array) -> tuple[ComparableValues, npt.NDArray[np.int64]]:
    """Return the distinct comparable values of an Arrow array without nulls, sorted, and each row's index in them."""
    if not is_numeric(kind):
        return _rank_by_dictionary(kind, array)
    values, ranks = np.unique(to_numbers(kind, array), return_inverse=True)
    return values, ranks.astype(np.int64)


def is_numeric(kind: IcebergType) -> bool:
    """Return whether values of a type are 64-bit numbers."""
    return not isinstance(kind, TEXT_TYPES) and not (isinstance(kind, DecimalType) and kind.precision > INT64_DIGITS)


def _rank_by_dictionary(kind: IcebergType, array: pa.Array) -> tuple[list[Any], npt.NDArray[np.int64]]:
    encoded = array.dictionary_encode()
    values = [to_comparable(kind, value) for value in encoded.dictionary.to_pylist()]
    order = sorted(range(len(values)), key=values.__getitem__)  # type: ignore[arg-type]
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return [values[place] for place in order], rank[encoded.indices.to_numpy(zero_copy_only=False)]


def to_numbers(kind: IcebergType, array: pa.Array) -> npt.NDArray[Any]:
    """Return the comparable values of an Arrow array of a numeric type without nulls."""
    if isinstance(kind, REAL_TYPES):
        return cast("npt.NDArray[np.float64]", array.cast(pa.float64()).to_numpy(zero_copy_only=False))
    if isinstance(kind, DecimalType):
        whole = np.frombuffer(array.cast(pa.decimal128(38, kind.scale)).buffers()[1], dtype=np.int64)
        return whole[::2][array.offset : array.offset + len(array)]  # the lower half of each, little-endian
    if isinstance(kind, DateType):
        array = array.cast(pa.date32()).cast(pa.int32())
    if isinstance(kind, (*MICROS_TYPES, *NANOS_TYPES)):
        zone = array.type.tz if pa.types.is_timestamp(array.type) else None
        array = array.cast(pa.timestamp("ns" if isinstance(kind, NANOS_TYPES) else "us", zone), safe=False)
    return cast("npt.NDArray[np.int64]", array.cast(pa.int64()).to_numpy(zero_copy_only=False))


MAP_KEY = re.compile(r"(?P<column>.+)\['(?P<key>.*)'\]", re.DOTALL)
DEFAULT_BOUND_LENGTH = 16  # characters that Iceberg keeps of a bound
INFERRED_COLUMNS = 100  # columns that have bounds unless a property sets another number
METRICS_COLUMN = "write.metadata.metrics.column."


@dataclass(frozen=True)
class ColumnSource:
    """The source of a column's values: the top-level column, the path of nested fields, and a map's key."""

    top: str
    path: tuple[str, ...] = ()
    key: str | None = None


def parse_column(name: str) -> ColumnSource:
    """Parse the name of a column.

    >>> parse_column("attributes['http.route']"), parse_column("resource.id")
    (ColumnSource(top='attributes', path=(), key='http.route'), ColumnSource(top='resource', path=('id',), key=None))
    """
    keyed = MAP_KEY.fullmatch(name)
    top, *path = (keyed["column"] if keyed else name).split(".")
    return ColumnSource(top, tuple(path), keyed["key"] if keyed else None)


def find_column_types(schema: Schema, names: Iterable[str]) -> dict[str, IcebergType]:
    """Return the types of the columns that a table has and whose values can be compared."""
    found = {name: _find_column_type(schema, name) for name in names}
    return {name: kind for name, kind in found.items() if kind is not None and is_comparable(kind)}


def _find_column_type(schema: Schema, name: str) -> IcebergType | None:
    source = parse_column(name)
    held = ".".join((source.top, *source.path))
    if held not in schema.column_names:
        return None
    kind: IcebergType = schema.find_type(held)
    if source.key is None:
        return kind
    return kind.value_type if isinstance(kind, MapType) else None


def find_bound_lengths(schema: Schema, properties: dict[str, str]) -> dict[str, int]:
    """Return the columns that have bounds in new files.

    The value is the length that bounds of text are cut to, in characters (0: not cut).
    """
    plan = compute_statistics_plan(schema, properties)
    inferred = {one.field_id for one in schema.fields[:INFERRED_COLUMNS]}
    found = {}
    for number, how in plan.items():
        name = schema.find_column_name(number) or ""
        bounded = how.mode.type in {MetricModeTypes.TRUNCATE, MetricModeTypes.FULL}
        if bounded and (number in inferred or METRICS_COLUMN + name in properties):
            found[name] = how.mode.length or 0
    return found
