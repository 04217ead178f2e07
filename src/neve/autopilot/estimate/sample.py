"""Rows of a table, few of each file: one row group of it that chance picks, and of that some rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.autopilot.estimate.calibrate import Margin, calibrated
from neve.autopilot.estimate.columns import source_of, types_of
from neve.autopilot.estimate.counts import counted, number_of_places, places_of
from neve.autopilot.estimate.plain import is_numeric
from neve.autopilot.estimate.reader import RowReader, values_of
from neve.autopilot.estimate.tails import ROWS_A_FILE, TailReader, in_tails, tails_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from neve.autopilot.estimate.columns import Source
    from neve.autopilot.estimate.files import TableFiles
    from neve.autopilot.estimate.intervals import ColumnTests
    from neve.autopilot.estimate.tails import Tail


@dataclass(frozen=True)
class Sample:
    """Sampled rows; each stands for `weights` rows of the table, and came from the file with its number in `files`.

    Rows that delete files mark are among them: few are, and a rewrite of a table with many begins with compaction.
    `key_shares` says of keys of maps how much of the map's bytes they and their values are; `tails` are the ends of
    columns that no row is missing from.
    """

    columns: Mapping[str, pa.Array]
    types: Mapping[str, IcebergType]
    weights: npt.NDArray[np.float64]
    files: npt.NDArray[np.int64]
    key_shares: Mapping[str, float]
    tails: Mapping[str, Tail] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows were sampled."""
        return len(self.weights)

    def thinned(self, rows: int, seed: int) -> Sample:
        """Some rows of the sample, for a first look at many candidates."""
        if self.rows <= rows:
            return self
        chosen = np.sort(np.random.default_rng(seed).permutation(self.rows)[:rows])
        some = self.taken(chosen)
        return replace(some, weights=some.weights * (self.weights.sum() / some.weights.sum()), tails={})

    def taken(self, places: npt.NDArray[np.intp]) -> Sample:
        """These rows of the sample, with the weights that they have."""
        return replace(
            self,
            columns={name: column.take(pa.array(places)) for name, column in self.columns.items()},
            weights=self.weights[places],
            files=self.files[places],
        )

    def joined(self, other: Sample) -> Sample:
        """The rows of two samples, file by file."""
        columns = {name: pa.concat_arrays([column, other.columns[name]]) for name, column in self.columns.items()}
        weights, files = (np.concatenate([self.weights, other.weights]), np.concatenate([self.files, other.files]))
        return replace(self, columns=columns, weights=weights, files=files).taken(np.argsort(files, kind="stable"))


@dataclass(frozen=True)
class Size:
    """How much is sampled: rows in all, and files at most; and how many files the table's rows will be cut into."""

    rows: int
    files: int
    seed: int
    cut_into: int = 1


def take_sample(
    table: Table, files: TableFiles, names: Sequence[str], size: Size, columns: Mapping[str, ColumnTests] | None = None
) -> Sample:
    """Sample columns of a table; the same files and seed give the same rows.

    Of `columns`, those that are asked for, more is found out on the way: weights are such that the sample agrees with
    all rows that were read, and rows in tails of columns are in it one by one.
    """
    types = types_of(table.schema(), names)
    reader = RowReader(table, sorted({source_of(name).top for name in types}))
    asked = {name: tests for name, tests in (columns or {}).items() if name in types}
    drawn = _Drawing(reader, types, {name: tests for name, tests in asked.items() if is_numeric(tests.kind)})
    sample = drawn.sample(files, size)
    sample = _with_tails(sample, reader, files, size, asked)
    margins = [Margin.of(places_of(asked[name], sample.columns[name]), masses) for name, masses in drawn.masses.items()]
    return replace(sample, weights=calibrated(sample.weights, margins)) if sample.rows else sample


@dataclass
class _Drawing:
    """Draws rows of a row group of each file, and counts all that it reads."""

    reader: RowReader
    types: Mapping[str, IcebergType]
    counted: Mapping[str, ColumnTests]

    def __post_init__(self) -> None:
        self.masses = {name: np.zeros(number_of_places(tests)) for name, tests in self.counted.items()}

    def sample(self, files: TableFiles, size: Size) -> Sample:
        chance = np.random.default_rng(size.seed)
        known = [(spec.paths[place], spec.rows[place]) for spec, place in files.in_order()]
        chosen = np.sort(chance.permutation(len(known))[: size.files])
        total = sum(known[place][1] for place in chosen)
        pieces, weights, numbers = [self.reader.schema.empty_table()], [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
        for number in chosen:
            path, rows = known[number]
            piece = self._drawn(path, rows, max(1, round(size.rows * rows / total)), chance)
            pieces.append(piece)
            weights.append(np.full(piece.num_rows, rows / max(1, piece.num_rows)))
            numbers.append(np.full(piece.num_rows, number, dtype=np.int64))
        rows = pa.concat_tables(pieces).combine_chunks()
        scale = files.rows / total if total else 0.0
        return sample_of(rows, self.types, np.concatenate(weights) * scale, np.concatenate(numbers))

    def _drawn(self, path: str, rows: int, wanted: int, chance: np.random.Generator) -> pa.Table:
        group = self.reader.one_group(path, chance)
        for name, tests in self.counted.items():
            self.masses[name] += counted(tests, values_of(group, source_of(name))) * (rows / max(1, group.num_rows))
        return group.take(pa.array(np.sort(chance.permutation(group.num_rows)[:wanted])))


def sample_of(
    rows: pa.Table,
    types: Mapping[str, IcebergType],
    weights: npt.NDArray[np.float64],
    files: npt.NDArray[np.int64],
) -> Sample:
    """Rows with their weights and the numbers of their files, as a sample of the columns of these types."""
    columns = {name: values_of(rows, source_of(name)) for name in types}
    shares = {name: _key_share(rows, source_of(name), columns[name]) for name in types if source_of(name).key}
    return Sample(columns, types, weights, files, shares)


def _with_tails(
    sample: Sample, reader: RowReader, files: TableFiles, size: Size, columns: Mapping[str, ColumnTests]
) -> Sample:
    """The sample with every row that lies in a tail, where tails are asked for and not too many files have them."""
    is_whole = sample.rows >= files.rows
    tails = {} if is_whole else tails_of(sample, columns, ROWS_A_FILE * size.cut_into)
    found = TailReader(reader, columns, tails).rows(files, size.files) if tails else None
    if found is None:
        return sample
    rows, numbers = found
    whole = sample_of(rows, sample.types, np.ones(rows.num_rows), numbers)
    kept = sample.taken(np.flatnonzero(~in_tails(sample.columns, columns, tails)))
    left = max(0.0, files.rows - rows.num_rows)
    scaled = replace(kept, weights=kept.weights * (left / kept.weights.sum() if kept.rows else 1.0))
    return replace(scaled.joined(whole), tails=tails)


def _key_share(rows: pa.Table, source: Source, values: pa.Array) -> float:
    """How much of a map's bytes is one key with its values."""
    whole = values_of(rows, replace(source, key=None))
    everything = sum(pc.sum(pc.binary_length(part)).as_py() or 0 for part in (whole.keys, whole.items))
    length = len((source.key or "").encode()) * (len(values) - values.null_count)
    return ((pc.sum(pc.binary_length(values)).as_py() or 0) + length) / everything if everything else 1.0
