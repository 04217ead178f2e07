"""The context of planning decisions: table facts from metadata, settings, costs, history and the time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
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

from neve.compact.config import CompactConfig
from neve.compact.partition_memory import NO_MEMORY, PartitionMemory
from neve.compact.plan import Layout
from neve.compact.planning.candidates import FileClassifier
from neve.compact.planning.cost_model import CostModel
from neve.errors import ConfigError, LakeError
from neve.lake.read.partition_stats import TargetSizes
from neve.lake.write.sort_columns import find_sort_columns, is_fully_sorted
from neve.model.properties import DEDUPLICATE, LAYOUT_ZORDER, TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES_DEFAULT
from neve.model.signals import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from neve.compact.plan import Level, Partition
    from neve.lake.read.statistics import TimeColumn


KEEP = Layout()


@dataclass(frozen=True)
class TableFacts:
    """Facts of a table for the planner. `sorting` is its sort order, `layout` the layout that its files should have."""

    name: str
    uuid: str
    sizes: TargetSizes
    snapshot_id: int | None = None
    sequence: int = 0
    format_version: int = 2
    spec_id: int = 0
    sorting: Layout = KEEP
    sort_order_id: int | None = None
    layout: Layout = KEEP
    arrow_columns: frozenset[str] = frozenset()
    foreign_type: str | None = None
    time_column: str | None = None
    has_record_id: bool = False


@dataclass(frozen=True)
class Context:
    """Everything that a strategy may read. `level` is the level that a user requested, if any."""

    table: TableFacts
    now: datetime
    config: CompactConfig = field(default_factory=CompactConfig)
    cost: CostModel = field(default_factory=CostModel)
    memories: Mapping[str, PartitionMemory] = field(default_factory=dict)
    level: Level | None = None

    @property
    def classifier(self) -> FileClassifier:
        """The classifier of files."""
        config = self.config
        return FileClassifier(self.table.sizes, config.delete_files, config.delete_ratio, self.cost.calibration.ratio)

    def memory(self, partition: Partition) -> PartitionMemory:
        """Return the stored state of a partition."""
        return self.memories.get(partition.key, NO_MEMORY)

    def later(self, partition: Partition, memory: PartitionMemory) -> Context:
        """Return a copy with another state of a partition."""
        return replace(self, memories={**self.memories, partition.key: memory})

    def is_minor_due(self, partition: Partition) -> bool:
        """Return whether the last rewrite is old enough for a few fragments to justify another."""
        last = self.memory(partition).minor_at
        return last is None or self.now - last >= timedelta(seconds=self.config.minor_seconds)

    def is_in_turn(self, partition: Partition) -> bool:
        """Return whether a partition is packed repeatedly, by its number of fragments, and no user requested more."""
        return self.level is None and not self.is_minor_due(partition)

    def is_full_due(self, partition: Partition) -> bool:
        """Return whether a rewrite of the whole partition is due."""
        last = self.memory(partition).full_at
        if not self.config.full_days:
            return False
        return last is None or self.now - last >= timedelta(days=self.config.full_days)


RECORD_ID = "record_id"
NESTED = (ListType, MapType, StructType)
TIMES = (DateType, TimestampType, TimestamptzType)
NUMBERS = (BooleanType, DecimalType, DoubleType, FloatType, IntegerType, LongType)
PLAIN = (*NESTED, *TIMES, *NUMBERS, BinaryType, StringType)


def facts_of(table: Table, sizes: TargetSizes, time: TimeColumn | None) -> TableFacts:
    """Return the facts of a table at its current snapshot."""
    snapshot, metadata = table.current_snapshot(), table.metadata
    sorting = _find_sorting(table)
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
        layout=_find_zorder(table) or sorting,
        arrow_columns=frozenset(
            field.name for field in table.schema().fields if isinstance(field.field_type, PrimitiveType)
        ),
        foreign_type=foreign_type(table.schema()),
        time_column=time.name if time else None,
        has_record_id=has_record_id(table),
    )


def has_record_id(table: Table) -> bool:
    """Return whether a column identifies records: in Neve's own tables, or if the table's owner declares it.

    In other tables a column of that name may identify the subject of a row, and two rows with one id are two records.
    """
    kind = next((field.field_type for field in table.schema().fields if field.name == RECORD_ID), None)
    declared = table.properties.get(DEDUPLICATE)
    if declared is not None:
        return kind is not None and declared.strip().lower() == "true"
    return isinstance(kind, BinaryType) and table.name()[:-1] == (NAMESPACE,)


def foreign_type(schema: Schema) -> str | None:
    """Return the first type of a schema that Arrow and Parquet may encode differently than Iceberg."""
    types = (schema.find_type(field_id) for field_id in sorted(schema.field_ids))
    return next((str(kind) for kind in types if not isinstance(kind, PLAIN)), None)


def target_sizes(table: Table, wanted: int | None, configured: int) -> TargetSizes:
    """Return the target sizes of files: of the call, else the table, else the configuration, else 512 MB."""
    if wanted:
        return TargetSizes(wanted)
    text = table.properties.get(TARGET_FILE_SIZE_BYTES, str(configured or TARGET_FILE_SIZE_BYTES_DEFAULT))
    if not text.isdigit() or not int(text):
        raise LakeError(
            f"{'.'.join(table.name())}: property {TARGET_FILE_SIZE_BYTES} is {text!r}, expected a number of bytes",
            hint="set the property to a number of bytes, or remove it",
        )
    return TargetSizes(int(text))


def _find_sorting(table: Table) -> Layout:
    """Return the table's sort order, if rows can be sorted by all of its fields."""
    schema, order = table.schema(), table.sort_order()
    if not order.fields or not is_fully_sorted(schema, order):
        return KEEP
    return Layout("sort", tuple(find_sort_columns(schema, order)))


def _find_zorder(table: Table) -> Layout | None:
    names = tuple(name.strip() for name in table.properties.get(LAYOUT_ZORDER, "").split(",") if name.strip())
    known = {field.name for field in table.schema().fields if isinstance(field.field_type, PrimitiveType)}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ConfigError(
            f"{'.'.join(table.name())}: property {LAYOUT_ZORDER} names {', '.join(wrong)}, expected plain columns of "
            "the table",
            hint="set the property to columns of the table, or remove it",
        )
    return Layout("zorder", names) if names else None
