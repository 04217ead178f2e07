"""Create the declared tables, and bring older ones up to the declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import DayTransform, IdentityTransform, Transform, parse_transform

from neve.lake.evolution import (
    AddColumn,
    Change,
    SetComment,
    SetProperty,
    WidenColumn,
    property_changes,
    schema_changes,
)
from neve.model.columns import FORMAT_VERSION, FORMAT_VERSION_DEFAULT
from neve.model.tables import NAMESPACE, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table as IcebergTable

    from neve.lake.lake import Lake
    from neve.model.columns import Table


@dataclass(frozen=True)
class Outcome:
    """What was done to one table."""

    table: str
    created: bool
    changes: tuple[Change, ...] = ()


def init_tables(lake: Lake, tables: Iterable[Table] = TABLES) -> tuple[Outcome, ...]:
    """Create what is missing and evolve what is older; every table is checked before the first is touched."""
    lake.create()
    lake.catalog.create_namespace_if_not_exists(NAMESPACE)
    plan = [(table, *_existing(lake, table)) for table in tables]
    return tuple(_apply(lake, table, existing, changes) for table, existing, changes in plan)


def pending_changes(lake: Lake, tables: Iterable[Table] = TABLES) -> list[tuple[str, tuple[Change, ...]]]:
    """What `init_tables` would change in the tables that exist; raises `IncompatibleTable` where it would refuse."""
    return [(table.name, _existing(lake, table)[1]) for table in tables]


def _existing(lake: Lake, table: Table) -> tuple[IcebergTable | None, tuple[Change, ...]]:
    try:
        existing = lake.catalog.load_table((NAMESPACE, table.name))
    except (NoSuchTableError, NoSuchNamespaceError):
        return None, ()
    changes = schema_changes(table.name, existing.schema(), iceberg_schema(table))
    return existing, changes + property_changes(existing.properties, table.all_properties)


def _apply(lake: Lake, table: Table, existing: IcebergTable | None, changes: tuple[Change, ...]) -> Outcome:
    if existing is None:
        return Outcome(table.name, created=_create(lake, table))
    if changes:
        _evolve(existing, changes)
    return Outcome(table.name, created=False, changes=changes)


def _create(lake: Lake, table: Table) -> bool:
    schema = iceberg_schema(table)
    properties = {**table.all_properties, FORMAT_VERSION: str(FORMAT_VERSION_DEFAULT)}
    try:
        lake.catalog.create_table(
            (NAMESPACE, table.name),
            schema,
            partition_spec=partition_spec(table, schema),
            sort_order=sort_order(table, schema),
            properties=properties,
        )
    except TableAlreadyExistsError:
        return False  # another `neve init` was quicker
    return True


def _evolve(existing: IcebergTable, changes: tuple[Change, ...]) -> None:
    with existing.transaction() as transaction:
        with transaction.update_schema() as update:
            for change in changes:
                match change:
                    case AddColumn(path, kind, comment):
                        update.add_column(path, kind, doc=comment)
                    case WidenColumn(path, kind):
                        update.update_column(path, field_type=kind)
                    case SetComment(path, comment):
                        update.update_column(path, doc=comment)
        properties = {change.name: change.value for change in changes if isinstance(change, SetProperty)}
        if properties:
            transaction.set_properties(properties)


def iceberg_schema(table: Table) -> Schema:
    """The declared columns as an Iceberg schema, with ids from 1."""
    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(table.schema))


def partition_spec(table: Table, schema: Schema) -> PartitionSpec:
    """The declared partitioning over that schema."""
    fields = []
    for position, (column, text) in enumerate(table.partition):
        transform: Transform[object, object] = parse_transform(text)
        name = column if isinstance(transform, IdentityTransform) else f"{column}_{_suffix(transform)}"
        source = schema.find_field(column).field_id
        fields.append(PartitionField(source, PARTITION_FIELD_ID_START + position, transform, name))
    return PartitionSpec(*fields)


def _suffix(transform: Transform[object, object]) -> str:
    return "day" if isinstance(transform, DayTransform) else str(transform).split("[")[0]


def sort_order(table: Table, schema: Schema) -> SortOrder:
    """The declared sort order over that schema."""
    return SortOrder(
        *(
            SortField(schema.find_field(name).field_id, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST)
            for name in table.sort
        )
    )
