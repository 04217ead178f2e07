"""Layout in the metadata of an Iceberg table: read the current one, and derive the spec and order of a new one.

Pure functions of table metadata; nothing is committed here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.table.sorting import INITIAL_SORT_ORDER_ID, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, VoidTransform, parse_transform
from pyiceberg.types import MapType

from neve.autopilot.layout import Layout, PartField
from neve.errors import ConfigError
from neve.lake.read.history import read_summary
from neve.lake.write.sort_columns import find_sort_columns
from neve.model.properties import (
    BLOOM_FILTER_PREFIX,
    LAYOUT_ZORDER,
    TARGET_FILE_SIZE_BYTES,
    TARGET_FILE_SIZE_BYTES_DEFAULT,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType, NestedField

    from neve.autopilot.layout import Promoted


def current_layout(table: Table) -> Layout:
    """Return the default partition spec, the z-order or sort order, bloom filters and target size."""
    schema, properties = table.schema(), table.properties
    zorder = tuple(name.strip() for name in properties.get(LAYOUT_ZORDER, "").split(",") if name.strip())
    return Layout(
        partition=tuple(
            PartField(str(schema.find_column_name(field.source_id)), str(field.transform))
            for field in table.spec().fields
            if not isinstance(field.transform, VoidTransform)
        ),
        sort=() if zorder else tuple(find_sort_columns(schema, table.sort_order())),
        zorder=zorder,
        blooms=tuple(
            sorted(
                name.removeprefix(BLOOM_FILTER_PREFIX)
                for name, value in properties.items()
                if name.startswith(BLOOM_FILTER_PREFIX) and value == "true"
            )
        ),
        target_file_bytes=target_bytes(table),
    )


def table_bytes(table: Table) -> int:
    """Return the bytes of the table's files, from the summary of its snapshot."""
    return int(read_summary(table.current_snapshot()).get("total-files-size", 0))


def target_bytes(table: Table) -> int:
    """Return the target size of the table's files."""
    return int(table.properties.get(TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES_DEFAULT))


_MAP_KEY = re.compile(r"(?P<column>[^\[\]]+)\['(?P<key>.+)'\]")
_TRANSFORM_SUFFIXES = {"bucket": "bucket", "truncate": "trunc"}


def resolve_partition_spec(metadata: TableMetadata, wanted: Sequence[PartField]) -> PartitionSpec:
    """Return the partition spec for some fields: an existing one of the table if it has it, otherwise a new one.

    A field that any spec of the table had keeps its id and name, as Iceberg requires.
    """
    fields_wanted = [
        (_find_field(metadata.schema(), one.column).field_id, parse_transform(one.transform)) for one in wanted
    ]
    found = next(
        (spec for spec in metadata.partition_specs if _spec_fields(spec) == {(i, str(t)) for i, t in fields_wanted}),
        None,
    )
    if found is not None:
        return found
    known = {(one.source_id, str(one.transform)): one for spec in metadata.partition_specs for one in spec.fields}
    next_id = max(metadata.last_partition_id or 0, PARTITION_FIELD_ID_START - 1)
    fields = []
    for source, transform in fields_wanted:
        field = known.get((source, str(transform)))
        if field is None:
            next_id += 1
            name = _partition_field_name(str(metadata.schema().find_column_name(source)), str(transform))
            field = PartitionField(source_id=source, field_id=next_id, transform=transform, name=name)
        fields.append(field)
    return PartitionSpec(*fields, spec_id=max(spec.spec_id for spec in metadata.partition_specs) + 1)


def resolve_sort_order(metadata: TableMetadata, columns: Sequence[str]) -> SortOrder:
    """Return the ascending, nulls-first sort order of some columns: an existing one of the table, otherwise a new one.

    A new one has the id that the table will assign, so that files can name it before the table has it.
    """
    fields = [
        SortField(
            source_id=_find_field(metadata.schema(), name).field_id,
            transform=IdentityTransform(),
            direction=SortDirection.ASC,
            null_order=NullOrder.NULLS_FIRST,
        )
        for name in columns
    ]
    found = next((order for order in metadata.sort_orders if order.fields == fields), None)
    if found is not None:
        return found
    if not fields:
        return SortOrder(order_id=0)
    newest = max((order.order_id for order in metadata.sort_orders), default=0)
    return SortOrder(*fields, order_id=max(newest + 1, INITIAL_SORT_ORDER_ID))


def diff_properties(before: Layout, after: Layout, further: Mapping[str, str]) -> dict[str, str | None]:
    """Return the table properties that a layout changes; None removes a property."""
    changed: dict[str, str | None] = dict(further)
    changed |= {BLOOM_FILTER_PREFIX + name: "true" for name in after.blooms if name not in before.blooms}
    changed |= {BLOOM_FILTER_PREFIX + name: None for name in before.blooms if name not in after.blooms}
    if after.zorder != before.zorder:
        changed[LAYOUT_ZORDER] = ",".join(after.zorder) or None
    if after.target_file_bytes and after.target_file_bytes != before.target_file_bytes:
        changed[TARGET_FILE_SIZE_BYTES] = str(after.target_file_bytes)
    return changed


def parse_map_key(promoted: Promoted) -> tuple[str, str]:
    """Return the map and the key of a promoted column.

    Raises `ConfigError` for any other source.

    >>> from neve.autopilot.layout import Promoted
    >>> parse_map_key(Promoted("http_route", "attributes['http.route']"))
    ('attributes', 'http.route')
    """
    found = _MAP_KEY.fullmatch(promoted.source)
    if found is None:
        raise ConfigError(
            f"the source of the column {promoted.name} is {promoted.source!r}, expected a map's key: attributes['key']"
        )
    return found["column"], found["key"]


def find_new_columns(schema: Schema, promoted: Iterable[Promoted]) -> dict[str, IcebergType]:
    """Return the columns that the table lacks, with the type of the map's values.

    An existing column of another type is an error.
    """
    found: dict[str, IcebergType] = {}
    for one in promoted:
        kind = _find_field(schema, parse_map_key(one)[0]).field_type
        if not isinstance(kind, MapType):
            raise ConfigError(f"the source {one.source} of the column {one.name} is a {kind}, expected a map")
        existing = next((field for field in schema.fields if field.name == one.name), None)
        if existing is None:
            found[one.name] = kind.value_type
        elif existing.field_type != kind.value_type:
            raise ConfigError(f"the column {one.name} is a {existing.field_type}, expected a {kind.value_type}")
    return found


def _find_field(schema: Schema, name: str) -> NestedField:
    try:
        return schema.find_field(name)
    except ValueError as error:
        raise ConfigError(
            f"the layout uses the column {name}, which the table does not have",
            hint=f"its columns: {', '.join(schema.column_names[:20])}",
        ) from error


def _spec_fields(spec: PartitionSpec) -> set[tuple[int, str]]:
    return {(one.source_id, str(one.transform)) for one in spec.fields if not isinstance(one.transform, VoidTransform)}


def _partition_field_name(column: str, transform: str) -> str:
    """Return the name of a partition field, as Iceberg's own writers name it.

    >>> _partition_field_name("c", "identity"), _partition_field_name("c", "bucket[4]")
    ('c', 'c_bucket_4')
    >>> _partition_field_name("ts", "day"), _partition_field_name("c", "truncate[3]")
    ('ts_day', 'c_trunc_3')
    """
    if transform == "identity":
        return column
    word, _, width = transform.rstrip("]").partition("[")
    return "_".join(part for part in (column.replace(".", "_"), _TRANSFORM_SUFFIXES.get(word, word), width) if part)
