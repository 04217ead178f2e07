"""Delete files that apply to no row any more, taken out of a table by Iceberg's own action."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.java_table import JavaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def remove_dangling_deletes(spark: SparkSession, name: str) -> int:
    """Remove delete files that are older than every data file that they could apply to; how many there were."""
    table = JavaTable(spark, name)
    actions = table.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
    removed = actions.removeDanglingDeleteFiles(table.java).execute().removedDeleteFiles()
    return sum(1 for _file in removed)
