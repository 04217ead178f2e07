"""Records that are there twice: closed partitions are looked through, and those that hold any are rewritten whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.compact.fingerprint import RECORD_ID
from neve.compact.groups import dedupe_group
from neve.compact.observe import partition_files
from neve.compact.spark import TIMES
from neve.lake.lane import run_tasks
from neve.lake.parquet import DataFiles
from neve.lake.writer import Target

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from neve.compact.context import Context
    from neve.compact.plan import Plan
    from neve.lake.file_index import Connect

RECORD_ID_BYTES = 16


@dataclass(frozen=True)
class LookThrough:
    """All that a worker needs to look through the files of one partition."""

    target: Target
    paths: tuple[str, ...]


def count_duplicates(task: LookThrough) -> int:
    """How many rows of a partition are repetitions, or seem so; reads their ids and times alone."""
    schema = task.target.metadata.schema()
    names = [RECORD_ID, *(name for name in TIMES if name in schema.column_names)]
    files = DataFiles(task.target.io, schema)
    ids = [_ids(piece) for path in task.paths for piece in files.read_columns(path, names)]
    if all(pa.types.is_fixed_size_binary(one.type) for one in ids):
        halves = np.concatenate([_first_halves(one) for one in ids]) if ids else np.empty(0)
        return len(halves) - len(np.unique(halves))
    every = pa.chunked_array([chunk.cast(pa.binary()) for one in ids for chunk in one.chunks], pa.binary())
    return len(every) - int(pc.count_distinct(every).as_py())


def _ids(rows: pa.Table) -> pa.ChunkedArray:
    """The ids of records that have an id and a time; others are never taken for repetitions."""
    known = pc.is_valid(rows.column(RECORD_ID))
    times = [pc.not_equal(pc.fill_null(rows.column(name), 0), 0) for name in TIMES if name in rows.column_names]
    ids = rows.column(RECORD_ID).filter(pc.and_(known, reduce(pc.or_, times)) if times else known)
    try:
        return ids.cast(pa.binary(RECORD_ID_BYTES))
    except pa.ArrowInvalid:
        return ids


def _first_halves(ids: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Half of an id, which is a hash, tells nearly all apart; whole ones are compared when a partition is rewritten."""
    halves = [
        np.frombuffer(chunk.buffers()[1], np.uint64)[2 * chunk.offset : 2 * (chunk.offset + len(chunk)) : 2]
        for chunk in ids.chunks
        if len(chunk)
    ]
    return np.concatenate(halves) if halves else np.empty(0, np.uint64)


@dataclass(frozen=True)
class Search:
    """Looks through closed partitions of a table, a Spark task for each."""

    spark: SparkSession
    table: Table
    context: Context
    duck: Connect

    def extend(self, plan: Plan) -> Plan:
        """The plan, with a group for each partition that holds duplicates in the place of its other groups."""
        files = partition_files(self.table, self.context.config, plan.check_duplicates, duck=self.duck)
        partitions = [partition for partition in plan.check_duplicates if files.get(partition.key)]
        target = Target.of(self.table)
        tasks = [LookThrough(target, tuple(file.path for file in files[one.key])) for one in partitions]
        counts = run_tasks(self.spark, count_duplicates, tasks)
        found = [
            dedupe_group(partition, files[partition.key], count, self.context)
            for partition, count in zip(partitions, counts, strict=True)
            if count
        ]
        taken = {group.partition.key for group in found}
        return replace(
            plan,
            groups=(*(group for group in plan.groups if group.partition.key not in taken), *found),
            left_alone=tuple(one for one in plan.left_alone if one.partition.key not in taken),
        )


def clean_partitions(plan: Plan, published: Collection[str]) -> list[str]:
    """The partitions that are known to hold no duplicates now: none was found, or they were removed."""
    waiting = {group.partition.key for group in plan.groups if group.deduplicate and group.id not in published}
    return [partition.key for partition in plan.check_duplicates if partition.key not in waiting]
