"""Read chosen files of a table as a DataFrame with deletes applied, and write rows to files that are not committed yet.

Iceberg's own `rewrite_data_files` works in the same way: scan tasks are staged under a generated name that Spark can
load and save. Here a plan chooses the files, and the new files are returned instead of committed.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.types import BinaryType, DecimalType, FixedType, UUIDType

from neve.errors import CommitConflict
from neve.lake.spark.java_table import JavaTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType
    from pyspark.sql import DataFrame, SparkSession

    from neve.lake.write.data_file_json import DataFileJson

HUGE_SPLIT_BYTES = str(1 << 50)


@dataclass(frozen=True)
class StagedScan:
    """Scan tasks for some files, and the delete files that no other file needs."""

    tasks: Any
    removable_deletes: tuple[DataFileJson, ...]
    has_equality_deletes: bool


class StagedFiles:
    """Reader and writer of files of one table at one snapshot, under a folder."""

    def __init__(self, spark: SparkSession, name: str, folder: str) -> None:
        self._spark = spark
        self._table = JavaTable(spark, name)
        self._staged = self._table.written_under(folder)

    def scan(self, paths: frozenset[str], snapshot_id: int, spec_id: int, where: str | None) -> StagedScan:
        """Return the tasks that read these files of one partition.

        Raises `CommitConflict` if one is not in the snapshot.
        """
        table = self._table
        planned = table.java.newScan().useSnapshot(snapshot_id).ignoreResiduals()
        if where is not None:
            planned = planned.filter(table.iceberg.expressions.ExpressionParser.fromJson(where))
        tasks, ours, others = table.jvm.java.util.ArrayList(), _Deletes(), _Deletes()
        closeable = planned.planFiles()
        for task in _iterate(closeable.iterator()):
            chosen = task.file().location() in paths
            if chosen:
                tasks.add(task)
            (ours if chosen else others).add(task)
        closeable.close()
        if tasks.size() != len(paths):
            raise CommitConflict(f"{len(paths) - tasks.size()} of {len(paths)} files are not in snapshot {snapshot_id}")
        # A delete file of another partition spec may apply to partitions that were not scanned.
        removable = [file for path, file in ours.files.items() if path not in others.files and file.specId() == spec_id]
        return StagedScan(tasks, tuple(table.contents(removable)), ours.has_equality)

    @contextmanager
    def reading(self, tasks: Any) -> Iterator[tuple[DataFrame, str]]:
        """Stage the tasks and yield their rows, with the name under which the replacement may be saved."""
        name, iceberg = str(uuid.uuid4()), self._table.iceberg
        manager, coordinator = iceberg.spark.ScanTaskSetManager.get(), iceberg.spark.FileRewriteCoordinator.get()
        self._table.cache.add(name, self._staged)
        manager.stageTasks(self._staged, name, tasks)
        try:
            reader = self._spark.read.format("iceberg").option(
                "split-size", HUGE_SPLIT_BYTES if tasks.size() == 1 else str(1 << 27)
            )
            yield reader.option("file-open-cost", "0").load(name), name
        finally:
            self._table.cache.remove(name)
            manager.removeTasks(self._staged, name)
            coordinator.clearRewrite(self._staged, name)

    def write(self, rows: DataFrame, name: str, options: dict[str, str]) -> list[Any]:
        """Save rows under the name that they were read by, and return Java's new files."""
        rows.write.format("iceberg").options(**options).mode("append").save(name)
        return list(self._table.iceberg.spark.FileRewriteCoordinator.get().fetchNewFiles(self._staged, name))

    def tasks_for(self, files: Sequence[Any]) -> Any:
        """Return tasks that read new files. No delete applies to them."""
        iceberg, tasks = self._table.iceberg, self._table.jvm.java.util.ArrayList()
        schema = iceberg.SchemaParser.toJson(self._table.java.schema())
        true = iceberg.expressions.ResidualEvaluator.unpartitioned(iceberg.expressions.Expressions.alwaysTrue())
        for file in files:
            spec = iceberg.PartitionSpecParser.toJson(self._table.java.specs().get(file.specId()))
            tasks.add(iceberg.BaseFileScanTask(file, self._table.no(iceberg.DeleteFile), schema, spec, true))
        return tasks

    def contents(self, files: Sequence[Any]) -> tuple[DataFileJson, ...]:
        """Return the documents of new files."""
        return tuple(self._table.contents(files))


class _Deletes:
    """The delete files that some data files need."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.has_equality = False

    def add(self, task: Any) -> None:
        for file in task.deletes():
            # Several deletion vectors share a file. Their offsets distinguish them.
            self.files[f"{file.location()}#{file.contentOffset()}"] = file
            self.has_equality = self.has_equality or str(file.content()) == "EQUALITY_DELETES"


def _iterate(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def build_partition_filter(table: Table, spec_id: int, values: Sequence[object]) -> str | None:
    """Return an expression that matches one partition, so that Iceberg skips the manifests of others."""
    spec, schema = table.specs()[spec_id], table.schema()
    parts: list[dict[str, object]] = []
    for field, value in zip(spec.fields, values, strict=True):
        source = schema.find_column_name(field.source_id)
        if source is None or not _is_expressible(field.transform.result_type(schema.find_type(source)), value):
            continue  # a value that can't be expressed does not restrict the scan
        term = source if str(field.transform) == "identity" else _transform_term(source, str(field.transform))
        parts.append(
            {"type": "is-null", "term": term} if value is None else {"type": "eq", "term": term, "value": value}
        )
    if not parts:
        return None
    expression = parts[0]
    for part in parts[1:]:
        expression = {"type": "and", "left": expression, "right": part}
    return json.dumps(expression)


def _is_expressible(kind: IcebergType, value: object) -> bool:
    """Return whether Iceberg's expressions accept the JSON form of a value of a type."""
    return value is None or not isinstance(kind, BinaryType | FixedType | UUIDType | DecimalType)


def _transform_term(source: str, transform: str) -> dict[str, str]:
    return {"type": "transform", "transform": transform, "term": source}
