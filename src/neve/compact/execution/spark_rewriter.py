"""Rewrite a group with Spark, through Iceberg's own reader and writer: deletes, z-order and other partition specs.

For a z-order each column is cut into ranges of equal row counts. The interleaved bits of a row's range numbers are
its place on the curve. Ranges instead of raw bits make skewed values and text behave like evenly spread numbers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from neve.compact.execution.duplicate_search import TIMES
from neve.compact.execution.rewritten_group import Fingerprint, RewrittenGroup
from neve.compact.plan import Executor
from neve.compact.planning.context import RECORD_ID
from neve.lake.read.partition_stats import TargetSizes
from neve.lake.spark.staged_files import StagedFiles, build_partition_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame, SparkSession

    from neve.compact.plan import Group


BITS = 6
SAMPLE_ROWS = 20_000


def find_boundaries(values: Sequence[object]) -> list[object]:
    """Return the values that cut the column into ranges of equal row counts.

    >>> find_boundaries(list(range(128)))[:3]
    [2, 4, 6]
    """
    present = sorted(value for value in values if value is not None)  # type: ignore[type-var]
    ranges = 1 << BITS
    cuts = [present[len(present) * number // ranges] for number in range(1, ranges)] if present else []
    return list(dict.fromkeys(cuts))


def interleave(numbers: Sequence[Column]) -> Column:
    """Interleave the bits of range numbers, the highest of each first."""
    woven = F.lit(0).cast("long")
    for bit in range(BITS):
        for position, number in enumerate(numbers):
            place = bit * len(numbers) + (len(numbers) - 1 - position)
            woven = woven.bitwiseOR(F.shiftleft(F.shiftright(number, bit).bitwiseAND(F.lit(1)).cast("long"), place))
    return woven


def place_on_curve(rows: DataFrame, columns: Sequence[str]) -> Column:
    """Return the place of each row on the curve, computed from a sample of the rows."""
    total = rows.count()
    share = min(1.0, SAMPLE_ROWS / max(1, total))
    sample = rows.select(*columns).sample(share, seed=7).collect()
    return interleave([_range_number(name, find_boundaries([row[name] for row in sample])) for name in columns])


def _range_number(name: str, cuts: Sequence[object]) -> Column:
    """Return the number of boundaries that a value has passed. Null comes before all."""
    if not cuts:
        return F.lit(0)
    passed = F.filter(F.array(*map(F.lit, cuts)), lambda cut: cut <= F.col(name))
    return F.when(F.col(name).isNull(), 0).otherwise(F.size(passed))


CURVE, PLACE = "__neve_curve", "__neve_place"
ARRIVAL = ("ingested_at", "arrival_order")
REPEATS = "dropped_repeats"
NESTED = (ArrayType, MapType, StructType, VariantType)


@dataclass(frozen=True)
class SparkRewriter:
    """Rewrites groups of one table at one snapshot."""

    spark: SparkSession
    spark_name: str
    table: Table
    snapshot_id: int
    folder: str
    target_bytes: int
    hashed: tuple[str, ...]

    def rewrite(self, group: Group) -> RewrittenGroup:
        """Read the group's files with their deletes, write new files, and read them back."""
        started = time.monotonic()
        staged = StagedFiles(self.spark, self.spark_name, self.folder)
        spec_id = group.partition.spec_id
        where = build_partition_filter(self.table, spec_id, group.partition.values)
        scan = staged.scan(frozenset(file.path for file in group.files), self.snapshot_id, spec_id, where)
        with staged.reading(scan.tasks) as (rows, name):
            distinct = deduplicate_rows(rows) if group.deduplicate else rows
            before = fingerprint_frame(distinct, self.hashed)
            duplicates = rows.count() - before.rows if group.deduplicate else 0
            files = staged.write(self._lay_out(distinct, group), name, self._options(group)) if before.rows else []
        after = self._fingerprint_files(staged, files)
        return RewrittenGroup(
            group_id=group.id,
            executor=Executor.SPARK,
            added=staged.contents(files),
            before=before,
            after=after,
            seconds=time.monotonic() - started,
            removed_deletes=scan.removable_deletes,
            has_equality_deletes=scan.has_equality_deletes,
            duplicates=duplicates,
        )

    def _fingerprint_files(self, staged: StagedFiles, files: Sequence[Any]) -> Fingerprint:
        if not files:
            return Fingerprint()
        with staged.reading(staged.tasks_for(files)) as (rows, _name):
            return fingerprint_frame(rows, self.hashed)

    def _lay_out(self, rows: DataFrame, group: Group) -> DataFrame:
        outputs = max(1, group.estimate.output_files)
        columns = [F.col(f"`{name}`").asc_nulls_first() for name in group.layout.columns]
        match group.layout.kind:
            case "sort":
                return rows.repartitionByRange(outputs, *columns).sortWithinPartitions(*columns)
            case "zorder":
                placed = rows.withColumn(CURVE, place_on_curve(rows, group.layout.columns))
                return placed.repartitionByRange(outputs, CURVE).sortWithinPartitions(CURVE).drop(CURVE)
        return rows.coalesce(outputs)

    def _options(self, group: Group) -> dict[str, str]:
        metadata = self.table.metadata
        options = {
            "target-file-size-bytes": str(TargetSizes(self.target_bytes).large),
            "output-spec-id": str(metadata.default_spec_id),
            "use-table-distribution-and-ordering": "false",
            # Rows of an older partitioning belong to many partitions of the current one.
            "fanout-enabled": str(group.partition.spec_id != metadata.default_spec_id).lower(),
        }
        order = metadata.sort_order()
        names = tuple(metadata.schema().find_column_name(field.source_id) for field in order.fields)
        if group.layout.kind == "sort" and names and names == group.layout.columns:
            options["output-sort-order-id"] = str(metadata.default_sort_order_id)
        return options


def fingerprint_frame(rows: DataFrame, columns: Sequence[str]) -> Fingerprint:
    """Return the number of rows and an order-independent hash of them."""
    hashed = F.xxhash64(*(_hashable(rows, name) for name in columns)) if columns else F.lit(0)
    [found] = rows.agg(F.count(F.lit(1)).alias("rows"), F.sum(hashed.cast("decimal(38, 0)")).alias("hash")).collect()
    return Fingerprint(int(found["rows"]), int(found["hash"] or 0))


def _hashable(rows: DataFrame, name: str) -> Column:
    """Convert maps to JSON. Spark can't hash maps, and considers maps with another order of entries different."""
    column = F.col(f"`{name}`")
    return F.to_json(F.struct(column)) if isinstance(rows.schema[name].dataType, NESTED) else column


def deduplicate_rows(rows: DataFrame) -> DataFrame:
    """Keep the first row of each record. Records without an id or without any time are kept as they are.

    Two log records without any time can be equal and still be two records. The first row counts those that are dropped
    where its table has a column for it.
    """
    equal = Window.partitionBy(RECORD_ID)
    first = equal.orderBy(*(name for name in (*ARRIVAL, RECORD_ID) if name in rows.columns))
    alone = ~has_identity(rows)
    placed = rows.where(~alone).withColumn(PLACE, F.row_number().over(first))
    if REPEATS in rows.columns:
        arrived = F.sum(1 + F.coalesce(F.col(REPEATS), F.lit(0))).over(equal)
        placed = placed.withColumn(REPEATS, F.when(arrived > 1, arrived - 1))
    return placed.where(F.col(PLACE) == 1).drop(PLACE).unionByName(rows.where(alone))


def has_identity(rows: DataFrame) -> Column:
    """Return whether a record's id distinguishes it from all others."""
    times = [F.coalesce(F.col(name), F.lit(0)) != 0 for name in TIMES if name in rows.columns]
    timed = reduce(or_, times) if times else F.lit(True)
    return F.col(RECORD_ID).isNotNull() & timed
