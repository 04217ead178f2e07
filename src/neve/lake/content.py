"""Data files as Iceberg writes them in JSON: the form that crosses from Python to the JVM and rests in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.manifest import DataFile

Content = dict[str, Any]

COUNTS = {
    "column-sizes": "column_sizes",
    "value-counts": "value_counts",
    "null-value-counts": "null_value_counts",
    "nan-value-counts": "nan_value_counts",
}
BOUNDS = {"lower-bounds": "lower_bounds", "upper-bounds": "upper_bounds"}


def content_of(file: DataFile, spec_id: int, partition: Sequence[object]) -> Content:
    """A data file with everything that its manifest entry says; partition values in Iceberg's JSON form."""
    content = bare_content(
        file.file_path, file.file_format.value, spec_id, partition, file.file_size_in_bytes, file.record_count
    )
    for name, attribute in COUNTS.items():
        content |= _map(name, getattr(file, attribute))
    for name, attribute in BOUNDS.items():
        bounds = getattr(file, attribute) or {}
        content |= _map(name, {key: bytes(value).hex().upper() for key, value in bounds.items()})
    if file.split_offsets:
        content["split-offsets"] = list(file.split_offsets)
    if file.sort_order_id is not None:
        content["sort-order-id"] = file.sort_order_id
    return content


def bare_content(
    path: str, file_format: str, spec_id: int, partition: Sequence[object], size: int, rows: int
) -> Content:
    """What is enough of a data file to take it out of a table."""
    return {
        "spec-id": spec_id,
        "content": "data",
        "file-path": path,
        "file-format": file_format.lower(),
        "partition": list(partition),
        "file-size-in-bytes": size,
        "record-count": rows,
    }


def _map(name: str, values: Mapping[int, object] | None) -> Content:
    return {name: {"keys": list(values), "values": list(values.values())}} if values else {}
