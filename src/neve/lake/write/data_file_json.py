"""Data files in Iceberg's JSON form, which crosses from Python to the JVM and is stored in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.lake.read.file_values import partition_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

DataFileJson = dict[str, Any]

COUNT_FIELDS = {
    "column-sizes": "column_sizes",
    "value-counts": "value_counts",
    "null-value-counts": "null_value_counts",
    "nan-value-counts": "nan_value_counts",
}
BOUND_FIELDS = {"lower-bounds": "lower_bounds", "upper-bounds": "upper_bounds"}


def data_file_to_json(file: DataFile, spec_id: int, partition: Sequence[object]) -> DataFileJson:
    """Return a data file with all fields of its manifest entry. Partition values are in Iceberg's JSON form."""
    content = make_minimal_json(
        file.file_path, file.file_format.value, spec_id, partition, file.file_size_in_bytes, file.record_count
    )
    for name, attribute in COUNT_FIELDS.items():
        content |= _map_to_json(name, getattr(file, attribute))
    for name, attribute in BOUND_FIELDS.items():
        bounds = getattr(file, attribute) or {}
        content |= _map_to_json(name, {key: bytes(value).hex().upper() for key, value in bounds.items()})
    if file.split_offsets:
        content["split-offsets"] = list(file.split_offsets)
    if file.sort_order_id is not None:
        content["sort-order-id"] = file.sort_order_id
    return content


def new_files_to_json(metadata: TableMetadata, files: Iterable[DataFile]) -> list[DataFileJson]:
    """Return files that were just written, to be added to a table."""
    spec = metadata.default_spec_id
    return [data_file_to_json(file, spec, partition_to_json(metadata, file, spec)) for file in files]


def make_removal_json(metadata: TableMetadata, file: DataFile) -> DataFileJson:
    """Return a data file of a table, to be removed from it."""
    return make_minimal_json(
        file.file_path,
        file.file_format.value,
        file.spec_id,
        partition_to_json(metadata, file, file.spec_id),
        file.file_size_in_bytes,
        file.record_count,
    )


def make_minimal_json(
    path: str, file_format: str, spec_id: int, partition: Sequence[object], size: int, rows: int
) -> DataFileJson:
    """Return the fields of a data file that suffice to remove it from a table."""
    return {
        "spec-id": spec_id,
        "content": "data",
        "file-path": path,
        "file-format": file_format.lower(),
        "partition": list(partition),
        "file-size-in-bytes": size,
        "record-count": rows,
    }


def _map_to_json(name: str, values: Mapping[int, object] | None) -> DataFileJson:
    return {name: {"keys": list(values), "values": list(values.values())}} if values else {}
