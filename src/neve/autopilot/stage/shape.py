"""What a layout is in a table's metadata: a partition spec, a sort order, properties; values in, values out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.table.sorting import INITIAL_SORT_ORDER_ID, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, VoidTransform, parse_transform
from pyiceberg.types import MapType

from neve.errors import ConfigError
from neve.model.columns import BLOOM_FILTER_PREFIX, LAYOUT_ZORDER, TARGET_FILE_SIZE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType, NestedField

    from neve.autopilot.layout import Layout, PartField, Promoted

_KEY = re.compile(r"(?P<column>[^\[\]]+)\['(?P<key>.+)'\]")
_WORDS = {"bucket": "bucket", "truncate": "trunc"}


def spec_for(metadata: TableMetadata, wanted: Sequence[PartField]) -> PartitionSpec:
    """The partition spec of some fields: the table's own where it has it, otherwise a new one.

    A field that any spec of the table had keeps its id and name, as Iceberg asks.
    """
    asked = [(_field(metadata.schema(), one.column).field_id, parse_transform(one.transform)) for one in wanted]
    found = next((spec for spec in metadata.partition_specs if _parts(spec) == {(i, str(t)) for i, t in asked}), None)
    if found is not None:
        return found
    known = {(one.source_id, str(one.transform)): one for spec in metadata.partition_specs for one in spec.fields}
    next_id = max(metadata.last_partition_id or 0, PARTITION_FIELD_ID_START - 1)
    fields = []
    for source, transform in asked:
        field = known.get((source, str(transform)))
        if field is None:
            next_id += 1
            name = _name(str(metadata.schema().find_column_name(source)), str(transform))
            field = PartitionField(source_id=source, field_id=next_id, transform=transform, name=name)
        fields.append(field)
    return PartitionSpec(*fields, spec_id=max(spec.spec_id for spec in metadata.partition_specs) + 1)


def order_for(metadata: TableMetadata, columns: Sequence[str]) -> SortOrder:
    """The sort order of some columns, rising, nulls first: the table's own where it has it, otherwise a new one.

    A new one has the id that it will get, so that files can name it before the table has it.
    """
    fields = [
        SortField(
            source_id=_field(metadata.schema(), name).field_id,
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


def properties_for(before: Layout, after: Layout, further: Mapping[str, str]) -> dict[str, str | None]:
    """The table properties that a layout changes; none stands for one that goes."""
    changed: dict[str, str | None] = dict(further)
    changed |= {BLOOM_FILTER_PREFIX + name: "true" for name in after.blooms if name not in before.blooms}
    changed |= {BLOOM_FILTER_PREFIX + name: None for name in before.blooms if name not in after.blooms}
    if after.zorder != before.zorder:
        changed[LAYOUT_ZORDER] = ",".join(after.zorder) or None
    if after.target_file_bytes and after.target_file_bytes != before.target_file_bytes:
        changed[TARGET_FILE_SIZE_BYTES] = str(after.target_file_bytes)
    return changed


def key_of(promoted: Promoted) -> tuple[str, str]:
    """The map and the key that a promoted column's values come from; raises `ConfigError` for any other source.

    >>> from neve.autopilot.layout import Promoted
    >>> key_of(Promoted("http_route", "attributes['http.route']"))
    ('attributes', 'http.route')
    """
    found = _KEY.fullmatch(promoted.source)
    if found is None:
        raise ConfigError(
            f"the column {promoted.name} is to come from {promoted.source!r}, expected a map's key: attributes['key']"
        )
    return found["column"], found["key"]


def new_columns(schema: Schema, promoted: Iterable[Promoted]) -> dict[str, IcebergType]:
    """The columns that the table lacks, with the type of the map's values; a column of another type is an error."""
    found: dict[str, IcebergType] = {}
    for one in promoted:
        kind = _field(schema, key_of(one)[0]).field_type
        if not isinstance(kind, MapType):
            raise ConfigError(f"{one.source} is to become the column {one.name}, but it is a {kind}, expected a map")
        there = next((field for field in schema.fields if field.name == one.name), None)
        if there is None:
            found[one.name] = kind.value_type
        elif there.field_type != kind.value_type:
            raise ConfigError(f"the column {one.name} is a {there.field_type}, expected a {kind.value_type}")
    return found


def _field(schema: Schema, name: str) -> NestedField:
    try:
        return schema.find_field(name)
    except ValueError as error:
        raise ConfigError(
            f"the layout names the column {name}, which the table does not have",
            hint=f"it has {', '.join(schema.column_names[:20])}",
        ) from error


def _parts(spec: PartitionSpec) -> set[tuple[int, str]]:
    return {(one.source_id, str(one.transform)) for one in spec.fields if not isinstance(one.transform, VoidTransform)}


def _name(column: str, transform: str) -> str:
    """A partition field's name, as Iceberg's own writers make it.

    >>> _name("c", "identity"), _name("c", "bucket[4]"), _name("ts", "day"), _name("c", "truncate[3]")
    ('c', 'c_bucket_4', 'ts_day', 'c_trunc_3')
    """
    if transform == "identity":
        return column
    word, _, width = transform.rstrip("]").partition("[")
    return "_".join(part for part in (column.replace(".", "_"), _WORDS.get(word, word), width) if part)
