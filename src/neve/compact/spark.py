"""The Spark executor: deletes, other layouts, other partitionings, through Iceberg's own reader and writer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from neve.compact.facts import RECORD_ID
from neve.compact.fingerprint import Fingerprint
from neve.compact.plan import Executor
from neve.compact.rewritten import Rewritten
from neve.compact.zorder import place_on_curve
from neve.lake.staged import StagedFiles, partition_filter
from neve.lake.target_sizes import TargetSizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame, SparkSession

    from neve.compact.plan import Group

CURVE, PLACE = "__neve_curve", "__neve_place"
ARRIVAL = ("ingested_at",)
NESTED = (ArrayType, MapType, StructType, VariantType)
TIMES = ("time_unix_nano", "observed_time_unix_nano")


@dataclass(frozen=True)
class SparkRewriter:
    """Rewrites groups of one table as it was at one snapshot."""

    spark: SparkSession
    spark_name: str
    table: Table
    snapshot_id: int
    folder: str
    target_bytes: int
    hashed: tuple[str, ...]

    def rewrite(self, group: Group) -> Rewritten:
        """Read the group's files with their deletes, write them anew, and read back what was written."""
        started = time.monotonic()
        staged = StagedFiles(self.spark, self.spark_name, self.folder)
        spec_id = group.partition.spec_id
        where = partition_filter(self.table, spec_id, group.partition.values)
        scan = staged.scan(frozenset(file.path for file in group.files), self.snapshot_id, spec_id, where)
        with staged.reading(scan.tasks) as (rows, name):
            kept = deduplicated(rows) if group.deduplicate else rows
            before = fingerprint(kept, self.hashed)
            duplicates = rows.count() - before.rows if group.deduplicate else 0
            files = staged.write(self._laid_out(kept, group), name, self._options(group)) if before.rows else []
        after = self._written(staged, files)
        return Rewritten(
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

    def _written(self, staged: StagedFiles, files: Sequence[Any]) -> Fingerprint:
        if not files:
            return Fingerprint()
        with staged.reading(staged.tasks_for(files)) as (rows, _name):
            return fingerprint(rows, self.hashed)

    def _laid_out(self, rows: DataFrame, group: Group) -> DataFrame:
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
            # Files of an older partitioning fall into many partitions of today's.
            "fanout-enabled": str(group.partition.spec_id != metadata.default_spec_id).lower(),
        }
        order = metadata.sort_order()
        names = tuple(metadata.schema().find_column_name(field.source_id) for field in order.fields)
        if group.layout.kind == "sort" and names and names == group.layout.columns:
            options["output-sort-order-id"] = str(metadata.default_sort_order_id)
        return options


def fingerprint(rows: DataFrame, columns: Sequence[str]) -> Fingerprint:
    """The number of rows and a hash of them that does not depend on their order."""
    hashed = F.xxhash64(*(_hashable(rows, name) for name in columns)) if columns else F.lit(0)
    [found] = rows.agg(F.count(F.lit(1)).alias("rows"), F.sum(hashed.cast("decimal(38, 0)")).alias("hash")).collect()
    return Fingerprint(int(found["rows"]), int(found["hash"] or 0))


def _hashable(rows: DataFrame, name: str) -> Column:
    """Spark hashes no maps, and says that two maps of another order are different; its JSON does for both."""
    column = F.col(f"`{name}`")
    return F.to_json(F.struct(column)) if isinstance(rows.schema[name].dataType, NESTED) else column


def deduplicated(rows: DataFrame) -> DataFrame:
    """One row of each record, the first that came; records without an id or without any time are left as they are.

    Two log records that carry no time at all can be equal and still be two.
    """
    first = Window.partitionBy(RECORD_ID).orderBy(*(name for name in (*ARRIVAL, RECORD_ID) if name in rows.columns))
    alone = ~has_identity(rows)
    once = rows.where(~alone).withColumn(PLACE, F.row_number().over(first)).where(F.col(PLACE) == 1).drop(PLACE)
    return once.unionByName(rows.where(alone))


def has_identity(rows: DataFrame) -> Column:
    """Whether a record's id tells it from all others."""
    times = [F.coalesce(F.col(name), F.lit(0)) != 0 for name in TIMES if name in rows.columns]
    timed = reduce(or_, times) if times else F.lit(True)
    return F.col(RECORD_ID).isNotNull() & timed
