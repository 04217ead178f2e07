"""Create the declared tables and evolve the schema of existing ones.

Schema changes are data. A change that would need a rewrite of files raises `IncompatibleTable`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.transforms import DayTransform, IdentityTransform, Transform, parse_transform
from pyiceberg.types import DoubleType, FloatType, IntegerType, ListType, LongType, MapType, NestedField, StructType

from neve.errors import IncompatibleTable, TableMissing
from neve.lake.arrow_types import to_iceberg_schema
from neve.model.properties import FORMAT_VERSION, FORMAT_VERSION_DEFAULT
from neve.model.signals import NAMESPACE
from neve.model.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.types import IcebergType

    from neve.lake.lake import Lake
    from neve.model.columns import Table


ColumnPath = tuple[str, ...]

WIDENINGS = {(IntegerType(), LongType()), (FloatType(), DoubleType())}


@dataclass(frozen=True)
class AddColumn:
    """Addition of a column, or of a field of a nested one, that an older release did not have."""

    path: ColumnPath
    type: IcebergType
    comment: str | None

    def __str__(self) -> str:
        return f"add column {'.'.join(self.path)} {self.type}"


@dataclass(frozen=True)
class WidenColumn:
    """Change of a numeric column to a wider type."""

    path: ColumnPath
    type: IcebergType

    def __str__(self) -> str:
        return f"widen column {'.'.join(self.path)} to {self.type}"


@dataclass(frozen=True)
class SetComment:
    """Change of a column's comment."""

    path: ColumnPath
    comment: str

    def __str__(self) -> str:
        return f"comment on {'.'.join(self.path)}: {self.comment}"


@dataclass(frozen=True)
class SetProperty:
    """Addition of a missing table property. An existing value is the user's and stays."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"set {self.name} = {self.value}"


Change = AddColumn | WidenColumn | SetComment | SetProperty


def find_schema_changes(table: str, existing: Schema, declared: Schema) -> tuple[Change, ...]:
    """Return the changes that need no rewrite. Raises `IncompatibleTable` for the first that would need one."""
    return tuple(_compare_fields(table, (), existing.fields, declared.fields))


def find_property_changes(existing: dict[str, str], declared: dict[str, str]) -> tuple[Change, ...]:
    """Return the declared properties that the table does not have."""
    return tuple(SetProperty(name, value) for name, value in declared.items() if name not in existing)


def _compare_fields(
    table: str, path: ColumnPath, existing: tuple[NestedField, ...], declared: tuple[NestedField, ...]
) -> Iterator[Change]:
    known = {field.name: field for field in existing}
    for field in declared:
        here = (*path, field.name)
        if field.name not in known:
            if field.required:
                raise _incompatible_error(table, here, "is required, but older rows have no value for it")
            yield AddColumn(here, field.field_type, field.doc)
            continue
        if field.required and not known[field.name].required and not path:
            raise _incompatible_error(table, here, "is required, but the table allows nulls in it")
        yield from _compare_types(table, here, known[field.name].field_type, field.field_type)
        if field.doc and field.doc != known[field.name].doc:
            yield SetComment(here, field.doc)


def _compare_types(table: str, path: ColumnPath, existing: IcebergType, declared: IcebergType) -> Iterator[Change]:
    match existing, declared:
        case StructType(), StructType():
            yield from _compare_fields(table, path, existing.fields, declared.fields)
        case ListType(), ListType():
            yield from _compare_types(table, (*path, "element"), existing.element_type, declared.element_type)
        case MapType(), MapType():
            yield from _compare_types(table, (*path, "key"), existing.key_type, declared.key_type)
            yield from _compare_types(table, (*path, "value"), existing.value_type, declared.value_type)
        case _ if existing == declared or (declared, existing) in WIDENINGS:
            pass  # the same, or wider already because of a newer release
        case _ if (existing, declared) in WIDENINGS:
            yield WidenColumn(path, declared)
        case _:
            raise _incompatible_error(table, path, f"is {existing}, expected {declared}")


def _incompatible_error(table: str, path: ColumnPath, what: str) -> IncompatibleTable:
    return IncompatibleTable(
        f"table {table}: column {'.'.join(path)} {what}",
        hint="rename the column or the table, or use another catalog or warehouse for this lake",
    )


@dataclass(frozen=True)
class Outcome:
    """Result of `init_tables` for one table."""

    table: str
    created: bool
    changes: tuple[Change, ...] = ()


def init_tables(lake: Lake, tables: Iterable[Table] = TABLES) -> tuple[Outcome, ...]:
    """Create missing tables and evolve older ones. Every table is checked before the first is changed."""
    lake.create()
    lake.catalog.create_namespace_if_not_exists(NAMESPACE)
    plan = [(table, *_load_existing(lake, table)) for table in tables]
    return tuple(_apply_changes(lake, table, existing, changes) for table, existing, changes in plan)


def find_pending_changes(lake: Lake, tables: Iterable[Table] = TABLES) -> list[tuple[str, tuple[Change, ...]]]:
    """Return the changes that `init_tables` would make to existing tables.

    Raises `IncompatibleTable` if `init_tables` would.
    """
    found: list[tuple[str, tuple[Change, ...]]] = []
    for table in tables:
        try:
            found.append((table.name, _find_changes(lake.table_metadata(table.name), table)))
        except TableMissing:
            found.append((table.name, ()))
    return found


def _load_existing(lake: Lake, table: Table) -> tuple[IcebergTable | None, tuple[Change, ...]]:
    try:
        existing = lake.catalog.load_table((NAMESPACE, table.name))
    except (NoSuchTableError, NoSuchNamespaceError):
        return None, ()
    return existing, _find_changes(existing, table)


def _find_changes(existing: IcebergTable, table: Table) -> tuple[Change, ...]:
    changes = find_schema_changes(table.name, existing.schema(), iceberg_schema(table))
    return changes + find_property_changes(existing.properties, table.all_properties)


def _apply_changes(lake: Lake, table: Table, existing: IcebergTable | None, changes: tuple[Change, ...]) -> Outcome:
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
        return False  # another `neve init` was faster
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
    """Return the declared columns as an Iceberg schema, with ids from 1."""
    return to_iceberg_schema(table.schema)


def partition_spec(table: Table, schema: Schema) -> PartitionSpec:
    """Return the declared partitioning of that schema."""
    fields = []
    for position, (column, text) in enumerate(table.partition):
        transform: Transform[object, object] = parse_transform(text)
        name = column if isinstance(transform, IdentityTransform) else f"{column}_{_partition_suffix(transform)}"
        source = schema.find_field(column).field_id
        fields.append(PartitionField(source, PARTITION_FIELD_ID_START + position, transform, name))
    return PartitionSpec(*fields)


def _partition_suffix(transform: Transform[object, object]) -> str:
    return "day" if isinstance(transform, DayTransform) else str(transform).split("[")[0]


def sort_order(table: Table, schema: Schema) -> SortOrder:
    """Return the declared sort order of that schema."""
    from pyiceberg.table.sorting import (  # noqa: PLC0415 - imports pyiceberg's tables, for new tables alone
        NullOrder,
        SortDirection,
        SortField,
        SortOrder,
    )

    return SortOrder(
        *(
            SortField(schema.find_field(name).field_id, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST)
            for name in table.sort
        )
    )
