"""Decisions of a table in Arrow tasks: each reads few columns of some files, and returns the records that may be kept.

The sample is the one that Spark draws (`decide.py`). Spark decides where a group needs another type, a total must be
exact, or a record is there twice.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import And, EqualTo, Reference
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.types import BinaryType, BooleanType, IntegerType, LongType, StringType

from neve.lake.read.snapshot_files import filter_by_time, scan_files
from neve.lake.spark.tasks import count_slices, run_tasks
from neve.lake.time_columns import to_moments
from neve.lake.write.table_writer import Target
from neve.reservoir.sampling.aggregate import REFUSED
from neve.reservoir.sampling.methods import LARGEST_WEIGHT
from neve.reservoir.sampling.vector_cut import GroupNumbers, VectorDraw
from neve.reservoir.sampling.vector_hash import hash_columns, to_uniform
from neve.reservoir.tables.expressions import BETWEEN, NAMELESS, NUMBERS, resolve_column
from neve.reservoir.tables.plan import Plan
from neve.reservoir.weights import ATTRIBUTE, NUMBER
from neve.reservoir.windows import by_owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table
    from pyspark.sql import SparkSession

    from neve.lake.time_ranges import Ranges
    from neve.reservoir.config import LakeSampling
    from neve.reservoir.tables.plan import Counts, PlannedWindow

    Mask = npt.NDArray[np.bool_]

WINDOW = ("organization_id", "sampling_window")
GROUP = (*WINDOW, "sampling_group")
GROUP_TYPES = (StringType, IntegerType, LongType, BooleanType, BinaryType)  # whose text is the same in Spark and Arrow
MAPS = ("attributes", "attribute_types")
KEYS = tuple(f"{name}.key_value.key" for name in MAPS)  # leaves of the Parquet file
PASS_RECORDS = 5_000_000  # records of the windows that are decided at once: all of them may be kept
NUMBER_TYPES = tuple(NUMBERS.strip("()").replace("'", "").split(", "))


def can_group(schema: Schema, names: Sequence[str]) -> bool:
    """Return whether Arrow gives the texts of groups that Spark gives."""
    found = [resolve_column(schema, name) for name in names]
    return all(key is not None or isinstance(schema.find_type(column), GROUP_TYPES) for column, key in found)


@dataclass(frozen=True)
class RecordReader:
    """Reader of the windows, groups, ids and weights of records. It can be pickled."""

    source: Target
    config: LakeSampling
    rows: BooleanExpression

    def read(self, task: FileScanTask, *, with_groups: bool) -> Iterator[pa.Table]:
        """Yield `WINDOW`, with groups also `sampling_group` and `record_id`, and with weights `MAPS`, of a file."""
        metadata, io = self.source.metadata, self.source.io
        groups = [resolve_column(metadata.schema(), name) for name in self.config.by] if with_groups else []
        names = {"organization_id", "timestamp", *(column for column, _key in groups)}
        names |= {"record_id"} if with_groups else set()
        has_weights = self._needs_weights(with_groups=with_groups) and has_weight_keys(io, task.file.file_path)
        names |= set(MAPS) if has_weights else set()
        scan = ArrowScan(metadata, io, metadata.schema().select(*sorted(names)), self.rows)
        for batch in scan.to_record_batches([task]):
            rows = pa.Table.from_batches([batch]).combine_chunks()
            columns = {
                "organization_id": rows.column("organization_id").cast(pa.string()),
                "sampling_window": pa.array(self._windows(rows)),
            }
            if with_groups:
                columns["sampling_group"] = _join_texts([_text_of(rows, *group) for group in groups], rows.num_rows)
                columns["record_id"] = rows.column("record_id").cast(pa.binary())
            if has_weights:
                columns |= {name: rows.column(name) for name in MAPS}
            yield pa.table(columns)

    def _needs_weights(self, *, with_groups: bool) -> bool:
        """Return whether weights are read: to decide, or to count those that are not valid."""
        return self.config.weights != "one" and (with_groups or self.config.invalid_weights != "refuse")

    def _windows(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        return to_moments(rows.column("timestamp")) // self.config.micros * self.config.micros


def has_weight_keys(io: FileIO, path: str) -> bool:
    """Return whether a record of a file has a weight, from the keys of its attributes alone."""
    with io.new_input(path).open() as source:
        file = pq.ParquetFile(source, read_dictionary=list(KEYS))
        present = {file.schema.column(number).path for number in range(len(file.schema))}
        if not present.issuperset(KEYS):
            return True  # columns of other names: the scan finds them by their ids
        for batch in file.iter_batches(columns=list(KEYS), use_threads=False):
            for column in batch.columns:
                keys = column.flatten().field("key")
                values = keys.dictionary if pa.types.is_dictionary(keys.type) else keys
                if pc.index(values, ATTRIBUTE).as_py() >= 0:
                    return True
    return False


def _text_of(rows: pa.Table, column: str, key: str | None) -> pa.StringArray:
    """Return a column or an attribute as text, as `expressions.value_sql` does."""
    values = rows.column(column).combine_chunks()
    if key is not None:
        return pc.map_lookup(values, key, "first").cast(pa.string())
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        encoded = values.dictionary_encode()
        texts = pa.array([value.hex() for value in encoded.dictionary.to_pylist()], pa.string())
        return texts.take(encoded.indices)
    return values.cast(pa.string())


def _join_texts(values: Sequence[pa.StringArray], count: int) -> pa.StringArray:
    """Return the groups of records as one text, as `expressions.group_sql` does."""
    if len(values) == 1:
        return values[0]
    if not values:
        return pa.repeat(pa.scalar(""), count)
    return pc.binary_join_element_wise(*(pc.fill_null(value, "") for value in values), BETWEEN)


def find_weights(rows: pa.Table, *, refuse: bool) -> tuple[npt.NDArray[np.float64], Mask]:
    """Return the weights of records, and which of them count as 1 because theirs is not valid.

    Raises `ValueError` with the words of Spark's refusal if such weights are refused.
    """
    count = rows.num_rows
    if MAPS[0] not in rows.column_names:
        return np.ones(count), np.zeros(count, dtype=np.bool_)
    text, kind = (_lookup(rows, name) for name in MAPS)
    says = pc.or_(text.is_valid(), kind.is_valid()).to_numpy(zero_copy_only=False)
    is_number = pc.and_kleene(
        pc.match_substring_regex(text, rf"^{NUMBER}\z"),
        pc.is_in(pc.fill_null(kind, "string"), pa.array(NUMBER_TYPES)),
    )
    numbers = pc.if_else(pc.fill_null(is_number, False), text, pa.scalar(None, pa.string()))
    weights = pc.fill_null(_parse(numbers), 0.0).to_numpy()
    fits = (weights > 0) & (weights < LARGEST_WEIGHT)
    wrong = says & ~fits
    if refuse and wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        name = (rows.column("record_id")[row].as_py() or b"").hex().upper()
        raise ValueError(f"{REFUSED} {name} is {kind[row].as_py() or 'string'} {text[row].as_py() or ''}")
    return np.where(fits, weights, 1.0), wrong


def _lookup(rows: pa.Table, name: str) -> pa.StringArray:
    maps = rows.column(name).combine_chunks()
    return pc.map_lookup(maps, ATTRIBUTE, "first").cast(pa.string())


def _parse(texts: pa.StringArray) -> pa.DoubleArray:
    """Return texts as doubles. Python parses them, because Arrow accepts fewer forms, as `1.` or `+1`."""
    encoded = texts.dictionary_encode()
    return pa.array([float(text) for text in encoded.dictionary.to_pylist()], pa.float64()).take(encoded.indices)


@dataclass(frozen=True)
class CountTask:
    """Task that counts the records of each window in some files, and those with weights that are not valid."""

    reader: RecordReader

    def __call__(self, tasks: Sequence[FileScanTask]) -> list[tuple[str, int, int, int]]:
        """Return organization, window, records and weights that are not valid."""
        windows, counts, wrong = GroupNumbers(), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for task in tasks:
            for rows in self.reader.read(task, with_groups=False):
                numbers = windows.find([rows.column(name).combine_chunks() for name in WINDOW])
                more = len(windows.names()) - len(counts)
                counts, wrong = (np.concatenate((old, np.zeros(more, dtype=np.int64))) for old in (counts, wrong))
                counts += np.bincount(numbers, minlength=len(counts))
                _weights, invalid = find_weights(rows, refuse=False)
                wrong += np.bincount(numbers[invalid], minlength=len(counts))
        return [
            (*_window(name), int(records), int(bad))
            for name, records, bad in zip(windows.names(), counts, wrong, strict=True)
        ]


@dataclass(frozen=True)
class DecideTask:
    """Task that returns the records of some files that may be kept: k + 1 of each group at most."""

    reader: RecordReader
    draw: VectorDraw
    windows: Mapping[str, frozenset[int]]
    numbers: Mapping[str, int]  # of files, by their paths, which are long

    def __call__(self, tasks: Sequence[FileScanTask]) -> pa.Table | None:
        """Return `GROUP`, `record_id`, `weight` and the number of the `file` of the records."""
        return self.draw.cut(self._records(tasks))

    def _records(self, tasks: Sequence[FileScanTask]) -> Iterator[pa.Table]:
        for task in tasks:
            number = pa.scalar(self.numbers[task.file.file_path], pa.int32())
            for rows in self.reader.read(task, with_groups=True):
                wanted = rows.filter(pa.array(self._is_planned(rows)))
                if wanted.column("record_id").null_count:
                    raise ValueError(NAMELESS)
                weights, _wrong = find_weights(wanted, refuse=self.reader.config.invalid_weights == "refuse")
                found = wanted.select([*GROUP, "record_id"]).append_column("weight", pa.array(weights))
                yield found.append_column("file", pa.repeat(number, wanted.num_rows))

    def _is_planned(self, rows: pa.Table) -> Mask:
        numbers = GroupNumbers()
        places = numbers.find([rows.column(name).combine_chunks() for name in WINDOW])
        planned = [start in self.windows.get(str(owner), ()) for owner, start in numbers.names()]
        return np.array(planned, dtype=np.bool_)[places]


@dataclass(frozen=True)
class ArrowDecider:
    """Decider about windows of one snapshot of a table, with Arrow tasks on Spark."""

    spark: SparkSession
    config: LakeSampling
    source: Table
    snapshot: int
    salt: int

    def count(self, time: Ranges, owner: str | None) -> tuple[Counts, Counts]:
        """Count the records of every window of a time range, and those that count as 1 because of an invalid weight."""
        reader, groups = self._plan_tasks(time, owner)
        counts: dict[tuple[str, int], int] = {}
        wrong: dict[tuple[str, int], int] = {}
        for found in run_tasks(self.spark, CountTask(reader), groups):
            for name, start, records, bad in found:
                counts[name, start] = counts.get((name, start), 0) + records
                if bad:
                    wrong[name, start] = wrong.get((name, start), 0) + bad
        return counts, wrong

    def decide(self, plan: Plan) -> pa.Table | None:
        """Return `GROUP`, `record_id`, `weight`, `adjusted_count` and `_file` of the kept records.

        Nothing is returned if Spark must decide: a record is there twice.
        """
        draw = VectorDraw(GROUP, "record_id", self.config.k or 1, self.salt)
        found = []
        for windows in _split_passes(plan.to_sample):
            owned = by_owner((planned.owner, planned.start) for planned in windows)
            time = Plan(tuple(windows)).time(self.config.micros)
            reader, groups = self._plan_tasks(time, next(iter(owned)) if len(owned) == 1 else None)
            paths = [task.file.file_path for group in groups for task in group]
            numbers = {path: number for number, path in enumerate(paths)}
            task = DecideTask(reader, draw, {owner: frozenset(starts) for owner, starts in owned.items()}, numbers)
            cuts = [cut for cut in run_tasks(self.spark, task, groups) if cut is not None]
            sample = draw.sample(cuts)
            if sample is not None and self._has_repeats(sample):
                return None
            found += [_name_files(sample, paths)] if sample is not None else []
        if not found:
            return None
        return pa.concat_tables(found).rename_columns({"adjusted_weight": "adjusted_count"})

    def _plan_tasks(self, time: Ranges, owner: str | None) -> tuple[RecordReader, list[list[FileScanTask]]]:
        rows = filter_by_time(time)
        if owner is not None:
            rows = And(rows, EqualTo(term=Reference("organization_id"), value=owner))
        tasks = scan_files(self.source, rows, snapshot_id=self.snapshot)
        slices = min(len(tasks), count_slices(self.spark))
        return RecordReader(Target.of(self.source), self.config, rows), _split_evenly(tasks, slices)

    def _has_repeats(self, sample: pa.Table) -> bool:
        """Return whether a duplicate record displaced another one.

        Duplicates have the same priority: either both are in the sample, or the first item outside of it has the
        priority of the last one in it.
        """
        ids = pa.table([sample.column(name) for name in (*WINDOW, "record_id")], names=["owner", "start", "id"])
        if ids.group_by(["owner", "start", "id"]).aggregate([]).num_rows < sample.num_rows:
            return True
        weights, adjusted = (sample.column(name).to_numpy() for name in ("weight", "adjusted_weight"))
        priorities = weights / to_uniform(hash_columns(self.salt, [sample.column("record_id").combine_chunks()]))
        return bool(np.any((adjusted > weights) & (priorities == adjusted)))


def _name_files(sample: pa.Table, paths: Sequence[str]) -> pa.Table:
    """Replace the numbers of files by their paths."""
    files = pa.array(paths, pa.string()).take(sample.column("file").combine_chunks())
    return sample.drop_columns("file").append_column("_file", files)


def count_kept(decisions: pa.Table) -> Counts:
    """Return the number of kept records of every window."""
    windows = GroupNumbers()
    counts = np.bincount(windows.find([decisions.column(name).combine_chunks() for name in WINDOW])).tolist()
    return {_window(name): kept for name, kept in zip(windows.names(), counts, strict=True)}


def _window(name: tuple[object, ...]) -> tuple[str, int]:
    owner, start = name
    return str(owner), int(str(start))


def _split_passes(windows: Sequence[PlannedWindow]) -> Iterator[list[PlannedWindow]]:
    """Yield windows that lie side by side in time, with a limited number of records together."""
    held: list[PlannedWindow] = []
    records = 0
    for window in sorted((one for one in windows if one.records), key=lambda one: (one.start, one.owner)):
        if held and records + window.records > PASS_RECORDS:
            yield held
            held, records = [], 0
        held.append(window)
        records += window.records
    if held:
        yield held


def _split_evenly(tasks: Sequence[FileScanTask], slices: int) -> list[list[FileScanTask]]:
    """Return tasks of neighbouring files: they share groups, so that more rows are cut."""
    ordered = sorted(tasks, key=lambda task: task.file.file_path)
    edges = [len(ordered) * number // max(1, slices) for number in range(slices + 1)]
    return [list(ordered[start:end]) for start, end in itertools.pairwise(edges) if start < end]
