"""Chosen files of a table as a DataFrame, deletes applied, and back into files that nobody sees yet.

This is how Iceberg's own `rewrite_data_files` works inside: scan tasks are staged under a made-up name that Spark can
load and save. Here the files are those of a plan, and what was written is handed over instead of committed.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.types import BinaryType, DecimalType, FixedType, UUIDType

from neve.errors import CommitConflict
from neve.lake.java_table import JavaTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType
    from pyspark.sql import DataFrame, SparkSession

    from neve.lake.content import Content

HUGE = str(1 << 50)


@dataclass(frozen=True)
class Scan:
    """Scan tasks for some files, and the delete files that no other file needs."""

    tasks: Any
    removable_deletes: tuple[Content, ...]
    has_equality_deletes: bool


class StagedFiles:
    """Reads and writes files of one table at one snapshot, under a folder."""

    def __init__(self, spark: SparkSession, name: str, folder: str) -> None:
        self._spark = spark
        self._table = JavaTable(spark, name)
        self._staged = self._table.written_under(folder)

    def scan(self, paths: frozenset[str], snapshot_id: int, spec_id: int, where: str | None) -> Scan:
        """The tasks that read these files of one partition; raises `CommitConflict` when one is not in the snapshot."""
        table = self._table
        planned = table.java.newScan().useSnapshot(snapshot_id).ignoreResiduals()
        if where is not None:
            planned = planned.filter(table.iceberg.expressions.ExpressionParser.fromJson(where))
        tasks, ours, others = table.jvm.java.util.ArrayList(), _Deletes(), _Deletes()
        closeable = planned.planFiles()
        for task in _each(closeable.iterator()):
            chosen = task.file().location() in paths
            if chosen:
                tasks.add(task)
            (ours if chosen else others).add(task)
        closeable.close()
        if tasks.size() != len(paths):
            raise CommitConflict(f"{len(paths) - tasks.size()} of {len(paths)} files are not in snapshot {snapshot_id}")
        # A delete file of another partition spec may apply to partitions that were not looked at.
        removable = [file for path, file in ours.files.items() if path not in others.files and file.specId() == spec_id]
        return Scan(tasks, tuple(table.contents(removable)), ours.has_equality)

    @contextmanager
    def reading(self, tasks: Any) -> Iterator[tuple[DataFrame, str]]:
        """The rows of the tasks, and the name under which their replacement may be saved."""
        name, iceberg = str(uuid.uuid4()), self._table.iceberg
        manager, coordinator = iceberg.spark.ScanTaskSetManager.get(), iceberg.spark.FileRewriteCoordinator.get()
        self._table.cache.add(name, self._staged)
        manager.stageTasks(self._staged, name, tasks)
        try:
            reader = self._spark.read.format("iceberg").option(
                "split-size", HUGE if tasks.size() == 1 else str(1 << 27)
            )
            yield reader.option("file-open-cost", "0").load(name), name
        finally:
            self._table.cache.remove(name)
            manager.removeTasks(self._staged, name)
            coordinator.clearRewrite(self._staged, name)

    def write(self, rows: DataFrame, name: str, options: dict[str, str]) -> list[Any]:
        """Save rows under the name that they were read by; gives Java's new files."""
        rows.write.format("iceberg").options(**options).mode("append").save(name)
        return list(self._table.iceberg.spark.FileRewriteCoordinator.get().fetchNewFiles(self._staged, name))

    def tasks_for(self, files: Sequence[Any]) -> Any:
        """Tasks that read new files, which no delete applies to."""
        iceberg, tasks = self._table.iceberg, self._table.jvm.java.util.ArrayList()
        schema = iceberg.SchemaParser.toJson(self._table.java.schema())
        true = iceberg.expressions.ResidualEvaluator.unpartitioned(iceberg.expressions.Expressions.alwaysTrue())
        for file in files:
            spec = iceberg.PartitionSpecParser.toJson(self._table.java.specs().get(file.specId()))
            tasks.add(iceberg.BaseFileScanTask(file, self._table.no(iceberg.DeleteFile), schema, spec, true))
        return tasks

    def contents(self, files: Sequence[Any]) -> tuple[Content, ...]:
        """The documents of new files."""
        return tuple(self._table.contents(files))


class _Deletes:
    """The delete files that some data files need."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.has_equality = False

    def add(self, task: Any) -> None:
        for file in task.deletes():
            # Several deletion vectors share a file: what tells them apart is where they begin.
            self.files[f"{file.location()}#{file.contentOffset()}"] = file
            self.has_equality = self.has_equality or str(file.content()) == "EQUALITY_DELETES"


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def partition_filter(table: Table, spec_id: int, values: Sequence[object]) -> str | None:
    """An expression that holds for one partition and lets Iceberg skip the manifests of others."""
    spec, schema = table.specs()[spec_id], table.schema()
    parts: list[dict[str, object]] = []
    for field, value in zip(spec.fields, values, strict=True):
        source = schema.find_column_name(field.source_id)
        if source is None or not _is_said(field.transform.result_type(schema.find_type(source)), value):
            continue  # what can't be said narrows nothing
        term = source if str(field.transform) == "identity" else _transformed(source, str(field.transform))
        parts.append(
            {"type": "is-null", "term": term} if value is None else {"type": "eq", "term": term, "value": value}
        )
    if not parts:
        return None
    expression = parts[0]
    for part in parts[1:]:
        expression = {"type": "and", "left": expression, "right": part}
    return json.dumps(expression)


def _is_said(kind: IcebergType, value: object) -> bool:
    """Whether Iceberg's expressions take a value of a type as its JSON form writes it."""
    return value is None or not isinstance(kind, BinaryType | FixedType | UUIDType | DecimalType)


def _transformed(source: str, transform: str) -> dict[str, str]:
    return {"type": "transform", "transform": transform, "term": source}
