"""Files of random rows, with the partitions and column statistics that their manifests would have."""

from __future__ import annotations

from collections import defaultdict
from math import isnan
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import BinaryType, IcebergType, PrimitiveType, StringType
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string, truncate_upper_bound_text_string

from neve.lake.read.manifest_cache import FileEntry
from tests.query.predicates import SCHEMA

KEPT = 2  # characters of a bound
Row = dict[str, Any]


def spec_of(*parts: tuple[str, Any]) -> PartitionSpec:
    """A spec of columns and transforms."""
    fields = (
        PartitionField(SCHEMA.find_field(name).field_id, 1000 + place, transform, f"part{place}")
        for place, (name, transform) in enumerate(parts)
    )
    return PartitionSpec(*fields, spec_id=0)


SPECS = (
    spec_of(),
    spec_of(("t", DayTransform()), ("n", IdentityTransform())),
    spec_of(("t", HourTransform()), ("s", TruncateTransform(2))),
    spec_of(("t", MonthTransform()), ("f", IdentityTransform())),
    spec_of(("d", YearTransform()), ("big", BucketTransform(3))),
    spec_of(("s", BucketTransform(4)), ("n", TruncateTransform(10))),
    spec_of(("d", IdentityTransform()), ("b", TruncateTransform(1))),
)


def stored(name: str, value: Any) -> Any:
    """A value as Iceberg's transforms and bounds take it."""
    if value is None or name not in {"t", "d"}:
        return value
    return datetime_to_micros(value) if name == "t" else date_to_days(value)


def files_of(rows: list[Row], spec: PartitionSpec) -> list[tuple[FileEntry, list[Row]]]:
    """A file for each partition of some rows."""
    parts: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        parts[partition_of(row, spec)].append(row)
    return [(entry_of(some, values, str(place)), some) for place, (values, some) in enumerate(parts.items())]


def partition_of(row: Row, spec: PartitionSpec) -> tuple[Any, ...]:
    """The partition values of a row."""
    found = []
    for part in spec.fields:
        name = SCHEMA.find_column_name(part.source_id) or ""
        transform = part.transform.transform(SCHEMA.find_type(part.source_id))
        found.append(transform(stored(name, row[name])))
    return tuple(found)


def entry_of(rows: list[Row], partition: tuple[Any, ...], path: str) -> FileEntry:
    """A file, as a manifest describes it."""
    columns = {field.field_id: [stored(field.name, row[field.name]) for row in rows] for field in SCHEMA.fields}
    there = {number: [value for value in values if not is_unbounded(value)] for number, values in columns.items()}
    bounds = {number: bounds_of(SCHEMA.find_type(number), values) for number, values in there.items() if values}
    return FileEntry(
        file_path=path,
        file_size_in_bytes=1,
        record_count=len(rows),
        spec_id=0,
        partition=partition,
        sequence=1,
        content=DataFileContent.DATA,
        file_format=FileFormat.PARQUET,
        value_counts=dict.fromkeys(columns, len(rows)),
        null_value_counts={number: values.count(None) for number, values in columns.items()},
        nan_value_counts={number: sum(map(is_nan, values)) for number, values in columns.items()},
        lower_bounds={number: low for number, (low, _) in bounds.items()},
        upper_bounds={number: high for number, (_, high) in bounds.items() if high is not None},
    )


def is_nan(value: Any) -> bool:
    """Whether a value is no number."""
    return isinstance(value, float) and isnan(value)


def is_unbounded(value: Any) -> bool:
    """Whether bounds leave a value out."""
    return value is None or is_nan(value)


def bounds_of(kind: IcebergType, values: list[Any]) -> tuple[bytes, bytes | None]:
    """The bounds of values, cut as writers cut them."""
    assert isinstance(kind, PrimitiveType)
    low, high = min(values), max(values)
    if isinstance(kind, StringType):
        low, high = low[:KEPT], high if len(high) <= KEPT else truncate_upper_bound_text_string(high, KEPT)
    if isinstance(kind, BinaryType):
        low, high = low[:KEPT], high if len(high) <= KEPT else truncate_upper_bound_binary_string(high, KEPT)
    return to_bytes(kind, low), None if high is None else to_bytes(kind, high)
