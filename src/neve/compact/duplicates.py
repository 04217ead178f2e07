"""Records that are there twice: closed partitions are looked through, and those that hold any are rewritten whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from neve.compact.fingerprint import RECORD_ID
from neve.compact.groups import dedupe_group
from neve.compact.observe import partition_files
from neve.compact.spark import has_identity
from neve.lake.staged import StagedFiles, partition_filter

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from neve.compact.context import Context
    from neve.compact.plan import InputFile, Partition, Plan
    from neve.lake.file_index import Connect


@dataclass(frozen=True)
class Search:
    """Looks through the partitions of a table as it was at one snapshot."""

    spark: SparkSession
    spark_name: str
    table: Table
    context: Context
    duck: Connect

    def extend(self, plan: Plan) -> Plan:
        """The plan, with a group for each partition that holds duplicates in the place of its other groups."""
        partitions = plan.check_duplicates
        files = partition_files(self.table, self.context.config, partitions, duck=self.duck)
        found = []
        for partition in partitions:
            inputs = files.get(partition.key, ())
            duplicates = self.count(plan.start, partition, inputs) if inputs else 0
            if duplicates:
                found.append(dedupe_group(partition, inputs, duplicates, self.context))
        taken = {group.partition.key for group in found}
        rest = [group for group in plan.groups if group.partition.key not in taken]
        left = [one for one in plan.left_alone if one.partition.key not in taken]
        return replace(plan, groups=(*rest, *found), left_alone=tuple(left))

    def count(self, snapshot_id: int, partition: Partition, files: Sequence[InputFile]) -> int:
        """How many rows of a partition are repetitions; reads their ids alone."""
        staged = StagedFiles(self.spark, self.spark_name, self.table.location())
        where = partition_filter(self.table, partition.spec_id, partition.values)
        scan = staged.scan(frozenset(file.path for file in files), snapshot_id, partition.spec_id, where)
        with staged.reading(scan.tasks) as (rows, _name):
            known = rows.where(has_identity(rows))
            [counted] = known.agg(F.count(RECORD_ID).alias("all"), F.count_distinct(RECORD_ID).alias("once")).collect()
        return int(counted["all"]) - int(counted["once"])


def clean_partitions(plan: Plan, published: Collection[str]) -> list[str]:
    """The partitions that are known to hold no duplicates now: none was found, or they were removed."""
    waiting = {group.partition.key for group in plan.groups if group.deduplicate and group.id not in published}
    return [partition.key for partition in plan.check_duplicates if partition.key not in waiting]
