"""What the planner has to know of a table, from its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from neve.compact.context import KEEP, TableFacts
from neve.compact.plan import Layout
from neve.errors import ConfigError, LakeError
from neve.lake.layout import sort_columns, sorts_fully
from neve.lake.target_sizes import TargetSizes
from neve.model.columns import DEDUPLICATE, LAYOUT_ZORDER, TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES_DEFAULT
from neve.model.tables import NAMESPACE

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from neve.lake.bounds import TimeColumn

RECORD_ID = "record_id"
NESTED = (ListType, MapType, StructType)
TIMES = (DateType, TimestampType, TimestamptzType)
NUMBERS = (BooleanType, DecimalType, DoubleType, FloatType, IntegerType, LongType)
PLAIN = (*NESTED, *TIMES, *NUMBERS, BinaryType, StringType)


def facts_of(table: Table, sizes: TargetSizes, time: TimeColumn | None) -> TableFacts:
    """The facts of a table at its current snapshot."""
    snapshot, metadata = table.current_snapshot(), table.metadata
    sorting = _sorting(table)
    return TableFacts(
        name=".".join(table.name()),
        uuid=str(metadata.table_uuid),
        sizes=sizes,
        snapshot_id=snapshot.snapshot_id if snapshot else None,
        sequence=(snapshot.sequence_number or 0) if snapshot else 0,
        format_version=metadata.format_version,
        spec_id=metadata.default_spec_id,
        sorting=sorting,
        sort_order_id=metadata.default_sort_order_id if sorting.kind == "sort" else None,
        layout=_zorder(table) or sorting,
        arrow_columns=frozenset(
            field.name for field in table.schema().fields if isinstance(field.field_type, PrimitiveType)
        ),
        foreign_type=foreign_type(table.schema()),
        time_column=time.name if time else None,
        has_record_id=has_record_id(table),
    )


def has_record_id(table: Table) -> bool:
    """Whether a column tells which records are the same one: Neve's own, or where the table's owner says so.

    Elsewhere a column of that name may say what a row is about, and two rows of one id are two records.
    """
    kind = next((field.field_type for field in table.schema().fields if field.name == RECORD_ID), None)
    said = table.properties.get(DEDUPLICATE)
    if said is not None:
        return kind is not None and said.strip().lower() == "true"
    return isinstance(kind, BinaryType) and table.name()[:-1] == (NAMESPACE,)


def foreign_type(schema: Schema) -> str | None:
    """The first type of a schema that Arrow and Parquet may write down in another way than Iceberg does."""
    types = (schema.find_type(field_id) for field_id in sorted(schema.field_ids))
    return next((str(kind) for kind in types if not isinstance(kind, PLAIN)), None)


def target_sizes(table: Table, wanted: int | None, configured: int) -> TargetSizes:
    """The sizes that files should have: by the call, else the table, else the configuration, else 512 MB."""
    if wanted:
        return TargetSizes(wanted)
    text = table.properties.get(TARGET_FILE_SIZE_BYTES, str(configured or TARGET_FILE_SIZE_BYTES_DEFAULT))
    if not text.isdigit() or not int(text):
        raise LakeError(
            f"{'.'.join(table.name())}: property {TARGET_FILE_SIZE_BYTES} is {text!r}, expected a number of bytes",
            hint="set the property anew",
        )
    return TargetSizes(int(text))


def _sorting(table: Table) -> Layout:
    """The table's sort order, where rows can be sorted by it as it is."""
    schema, order = table.schema(), table.sort_order()
    if not order.fields or not sorts_fully(schema, order):
        return KEEP
    return Layout("sort", tuple(sort_columns(schema, order)))


def _zorder(table: Table) -> Layout | None:
    names = tuple(name.strip() for name in table.properties.get(LAYOUT_ZORDER, "").split(",") if name.strip())
    known = {field.name for field in table.schema().fields if isinstance(field.field_type, PrimitiveType)}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ConfigError(
            f"{'.'.join(table.name())}: property {LAYOUT_ZORDER} names {', '.join(wrong)}, expected plain columns of "
            "the table",
            hint="set the property anew, or remove it",
        )
    return Layout("zorder", names) if names else None
