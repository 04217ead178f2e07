"""Search closed partitions for duplicate records. Partitions that contain any are rewritten whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neve.compact.budgets import NO_BUDGETS
from neve.compact.plan import Cut
from neve.compact.planning.context import RECORD_ID
from neve.compact.planning.groups import make_dedupe_group
from neve.compact.planning.limits import Spending
from neve.compact.planning.table_planning import list_partition_files
from neve.lake.read.data_file_reader import MissingFieldIds
from neve.lake.spark.tasks import run_tasks
from neve.lake.write.file_schema import FIELD_ID
from neve.lake.write.table_writer import Target
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from neve.compact.budgets import Allowances
    from neve.compact.plan import Group, Plan
    from neve.compact.planning.context import Context
    from neve.compact.planning.limits import Limits
    from neve.lake.read.file_index import Connect

TIMES = ("time_unix_nano", "observed_time_unix_nano")
RECORD_ID_BYTES = 16
BATCH_ROWS = 20_000
log = get_logger(__name__)


@dataclass(frozen=True)
class DuplicateTask:
    """Input of a worker that searches the files of one partition."""

    target: Target
    paths: tuple[str, ...]


@dataclass(frozen=True)
class DuplicateCount:
    """Result of the search in a partition, or why it could not be searched."""

    duplicates: int = 0
    problem: str | None = None


def count_duplicates(task: DuplicateTask) -> DuplicateCount:
    """Count the rows of a partition that are or seem to be duplicates. Unreadable files are no reason to fail."""
    try:
        return DuplicateCount(_count(task))
    except (MissingFieldIds, pa.ArrowException, OSError, ValueError) as error:
        return DuplicateCount(problem=str(error) or type(error).__name__)


def _count(task: DuplicateTask) -> int:
    """Count duplicates. Only the ids and times of the rows are read."""
    schema = task.target.metadata.schema()
    ids = [_select_ids(piece) for path in task.paths for piece in _read(task.target, path, _choose_columns(schema))]
    if all(pa.types.is_fixed_size_binary(one.type) for one in ids):
        halves = np.concatenate([_first_halves(one) for one in ids]) if ids else np.empty(0)
        return len(halves) - len(np.unique(halves))
    every = pa.chunked_array([chunk.cast(pa.binary()) for one in ids for chunk in one.chunks], pa.binary())
    return len(every) - int(pc.count_distinct(every).as_py())


def _choose_columns(schema: Schema) -> dict[int, str]:
    """Return the columns to read, by their ids: a file may have them under older names."""
    return {schema.find_field(name).field_id: name for name in (RECORD_ID, *TIMES) if name in schema.column_names}


def _read(target: Target, path: str, wanted: Mapping[int, str]) -> Iterator[pa.Table]:
    """Yield some columns of a file. A file from before records had ids has no duplicates and yields nothing."""
    with target.io.new_input(path).open() as source:
        file = pq.ParquetFile(source)
        found = {_field_id(one): one.name for one in file.schema_arrow}
        if None in found:
            raise MissingFieldIds(f"{path} has columns without field ids")
        names = {found[id_]: name for id_, name in wanted.items() if id_ in found}
        if RECORD_ID not in names.values():
            return
        for batch in file.iter_batches(BATCH_ROWS, columns=list(names), use_threads=False):
            rows = pa.Table.from_batches([batch])
            rows = rows.rename_columns([names[name] for name in rows.column_names])
            yield _fill_missing(rows, wanted.values())


def _field_id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def _fill_missing(rows: pa.Table, names: Collection[str]) -> pa.Table:
    """Add the columns that a file does not have. All are times, and unknown."""
    for name in names:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(len(rows), pa.int64()))
    return rows


def _select_ids(rows: pa.Table) -> pa.ChunkedArray:
    """Return the ids of records that have an id and a time. Others are never considered duplicates."""
    known = pc.is_valid(rows.column(RECORD_ID))
    times = [pc.not_equal(pc.fill_null(rows.column(name), 0), 0) for name in TIMES if name in rows.column_names]
    ids = rows.column(RECORD_ID).filter(pc.and_(known, reduce(pc.or_, times)) if times else known)
    try:
        return ids.cast(pa.binary(RECORD_ID_BYTES))
    except pa.ArrowInvalid:
        return ids


def _first_halves(ids: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Return the first half of each id. It is part of a hash and nearly unique.

    Whole ids are compared when a partition is rewritten.
    """
    halves = [
        np.frombuffer(chunk.buffers()[1], np.uint64)[2 * chunk.offset : 2 * (chunk.offset + len(chunk)) : 2]
        for chunk in ids.chunks
        if len(chunk)
    ]
    return np.concatenate(halves) if halves else np.empty(0, np.uint64)


@dataclass(frozen=True)
class DuplicateSearch:
    """Searches closed partitions of a table, with a Spark task for each. The limits are those of the whole run."""

    spark: SparkSession
    table: Table
    context: Context
    duck: Connect
    limits: Limits
    allowances: Allowances = NO_BUDGETS

    def extend(self, plan: Plan) -> Plan:
        """Return the plan with groups for partitions that contain duplicates, and without unreadable partitions."""
        files = list_partition_files(self.table, self.context.config, plan.check_duplicates, duck=self.duck)
        partitions = [partition for partition in plan.check_duplicates if files.get(partition.key)]
        target = Target.of(self.table)
        tasks = [DuplicateTask(target, tuple(file.path for file in files[one.key])) for one in partitions]
        results = dict(zip(partitions, run_tasks(self.spark, count_duplicates, tasks), strict=True))
        for partition, result in results.items():
            if result.problem:
                log.warning(
                    "duplicate search failed",
                    table=plan.table,
                    partition=partition.label,
                    problem=result.problem,
                )
        found = [
            make_dedupe_group(partition, files[partition.key], result.duplicates, self.context)
            for partition, result in results.items()
            if result.duplicates
        ]
        searched = tuple(partition for partition, result in results.items() if not result.problem)
        return add_duplicate_groups(replace(plan, check_duplicates=searched), found, self.limits, self.allowances)


def add_duplicate_groups(
    plan: Plan, found: Sequence[Group], limits: Limits, allowances: Allowances = NO_BUDGETS
) -> Plan:
    """Replace the groups of partitions that contain duplicates by the found groups, as far as limits allow.

    A partition whose group is cut keeps its groups, and will be searched again.
    """
    groups, cuts = plan.groups, list[Cut]()
    for group in found:
        others = tuple(one for one in groups if one.partition.key != group.partition.key)
        cut_by = allowances.after(others).refusal([group]) or _cut(group, others, limits)
        if cut_by is None:
            groups = (*others, group)
        else:
            cuts.append(cut_by)
    held, cut = {group.partition.key for group in found}, {one.partition.key for one in cuts}
    return replace(
        plan,
        groups=groups,
        left_alone=tuple(one for one in plan.left_alone if one.partition.key not in held),
        cut=(*(one for one in plan.cut if one.partition.key not in held), *cuts),
        check_duplicates=tuple(one for one in plan.check_duplicates if one.key not in cut),
    )


def _cut(group: Group, others: Sequence[Group], limits: Limits) -> Cut | None:
    limit = limits.broken_by(Spending.of_all((*others, group)))
    if limit is None:
        return None
    never = limits.never_allow(Spending.of_all([group]))
    return limits.cut([group], never or limit, alone=never is not None)


def find_clean_partitions(plan: Plan, published: Collection[str]) -> list[str]:
    """Return the partitions without duplicates: none were found, or they were removed."""
    waiting = {group.partition.key for group in plan.groups if group.deduplicate and group.id not in published}
    return [partition.key for partition in plan.check_duplicates if partition.key not in waiting]
