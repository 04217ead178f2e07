"""Records that are there twice: closed partitions are looked through, and those that hold any are rewritten whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog

from neve.compact.budgets import NO_BUDGETS
from neve.compact.facts import RECORD_ID
from neve.compact.groups import dedupe_group
from neve.compact.limits import Spending
from neve.compact.observe import partition_files
from neve.compact.plan import Cut
from neve.compact.spark import TIMES
from neve.lake.fields import FIELD_ID
from neve.lake.lane import run_tasks
from neve.lake.parquet import ForeignFile
from neve.lake.writer import Target

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from neve.compact.budgets import Allowances
    from neve.compact.context import Context
    from neve.compact.limits import Limits
    from neve.compact.plan import Group, Plan
    from neve.lake.file_index import Connect

RECORD_ID_BYTES = 16
BATCH_ROWS = 20_000
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LookThrough:
    """All that a worker needs to look through the files of one partition."""

    target: Target
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Looked:
    """What a look through a partition found, or why it could not be looked through."""

    duplicates: int = 0
    problem: str | None = None


def count_duplicates(task: LookThrough) -> Looked:
    """How many rows of a partition are repetitions, or seem so; files that can't be read are no reason to fail."""
    try:
        return Looked(_count(task))
    except (ForeignFile, pa.ArrowException, OSError, ValueError) as error:
        return Looked(problem=str(error) or type(error).__name__)


def _count(task: LookThrough) -> int:
    """Reads the ids and times of the rows alone."""
    schema = task.target.metadata.schema()
    ids = [_ids(piece) for path in task.paths for piece in _read(task.target, path, _wanted(schema))]
    if all(pa.types.is_fixed_size_binary(one.type) for one in ids):
        halves = np.concatenate([_first_halves(one) for one in ids]) if ids else np.empty(0)
        return len(halves) - len(np.unique(halves))
    every = pa.chunked_array([chunk.cast(pa.binary()) for one in ids for chunk in one.chunks], pa.binary())
    return len(every) - int(pc.count_distinct(every).as_py())


def _wanted(schema: Schema) -> dict[int, str]:
    """The columns to read, by their ids: a file may have them under older names."""
    return {schema.find_field(name).field_id: name for name in (RECORD_ID, *TIMES) if name in schema.column_names}


def _read(target: Target, path: str, wanted: Mapping[int, str]) -> Iterator[pa.Table]:
    """Some columns of a file; nothing where it was written before records had ids, for then none is a repetition."""
    with target.io.new_input(path).open() as source:
        file = pq.ParquetFile(source)
        found = {_id(one): one.name for one in file.schema_arrow}
        if None in found:
            raise ForeignFile(f"{path} has columns without field ids")
        names = {found[id_]: name for id_, name in wanted.items() if id_ in found}
        if RECORD_ID not in names.values():
            return
        for batch in file.iter_batches(BATCH_ROWS, columns=list(names), use_threads=False):
            rows = pa.Table.from_batches([batch])
            rows = rows.rename_columns([names[name] for name in rows.column_names])
            yield _filled(rows, wanted.values())


def _id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def _filled(rows: pa.Table, names: Collection[str]) -> pa.Table:
    """The rows with the columns that their file does not have: all are times, and not known."""
    for name in names:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(len(rows), pa.int64()))
    return rows


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
    """Looks through closed partitions of a table, a Spark task for each; the whole run has the limits."""

    spark: SparkSession
    table: Table
    context: Context
    duck: Connect
    limits: Limits
    allowances: Allowances = NO_BUDGETS

    def extend(self, plan: Plan) -> Plan:
        """The plan, with groups for the partitions that hold duplicates, and without those that can't be read."""
        files = partition_files(self.table, self.context.config, plan.check_duplicates, duck=self.duck)
        partitions = [partition for partition in plan.check_duplicates if files.get(partition.key)]
        target = Target.of(self.table)
        tasks = [LookThrough(target, tuple(file.path for file in files[one.key])) for one in partitions]
        looks = dict(zip(partitions, run_tasks(self.spark, count_duplicates, tasks), strict=True))
        for partition, look in looks.items():
            if look.problem:
                log.warning(
                    "not looked through for duplicates",
                    table=plan.table,
                    partition=partition.label,
                    problem=look.problem,
                )
        found = [
            dedupe_group(partition, files[partition.key], look.duplicates, self.context)
            for partition, look in looks.items()
            if look.duplicates
        ]
        seen = tuple(partition for partition, look in looks.items() if not look.problem)
        return with_duplicates(replace(plan, check_duplicates=seen), found, self.limits, self.allowances)


def with_duplicates(plan: Plan, found: Sequence[Group], limits: Limits, allowances: Allowances = NO_BUDGETS) -> Plan:
    """The plan with the groups found in the place of the other groups of their partitions, as far as limits allow.

    A partition whose group is cut keeps the groups that it has, and is to be looked through again.
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


def clean_partitions(plan: Plan, published: Collection[str]) -> list[str]:
    """The partitions that are known to hold no duplicates now: none was found, or they were removed."""
    waiting = {group.partition.key for group in plan.groups if group.deduplicate and group.id not in published}
    return [partition.key for partition in plan.check_duplicates if partition.key not in waiting]
