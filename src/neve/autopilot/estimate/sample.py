"""Sample of a table's rows: some rows of one random row group of each file, with calibrated weights.

Weights are calibrated because a boundary of a z-order between a literal and its sampled position would count whole
files wrongly. The few rows beyond literals near the ends of a column (the tails) are all read: where a file has fewer
than about eight of them, chance decides whether it must be read, and a sample of one row in thirty can't tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.autopilot.estimate.columns import find_column_types, is_numeric, parse_column, rank_values, to_numbers
from neve.autopilot.estimate.row_reader import RowReader, extract_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from neve.autopilot.estimate.columns import ColumnSource
    from neve.autopilot.estimate.table_files import ColumnStatistics, TableFiles
    from neve.predicate.compiled_filters import ColumnTests, Positions


Floats = npt.NDArray[np.float64]


def count_positions(tests: ColumnTests) -> int:
    """Return the number of positions of a column's values, plus one for rows without a value."""
    return tests.cuts.highest + 2


def find_row_positions(tests: ColumnTests, values: pa.Array) -> Positions:
    """Return the positions of rows' values.

    Null and NaN have the last position.
    """
    known = ~values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    places = np.full(len(values), tests.cuts.highest + 1, dtype=np.int64)
    selected = values if known.all() else values.filter(pa.array(known))
    if is_numeric(tests.kind):
        places[known] = tests.cuts.places(to_numbers(tests.kind, selected))
    else:
        distinct, ranks = rank_values(tests.kind, selected)
        places[known] = tests.cuts.places(distinct)[ranks]
    return places


def count_rows(tests: ColumnTests, values: pa.Array, weights: Floats | None = None) -> Floats:
    """Return the number of rows at each position."""
    counts = np.bincount(find_row_positions(tests, values), weights, minlength=count_positions(tests))
    return counts.astype(np.float64)


CALIBRATION_ROUNDS = 10  # passes over all columns; each pass changes the others a little
MIN_CELL_ROWS = 30  # sampled rows in a cell: with fewer, a weight would be mostly chance


@dataclass(frozen=True)
class Margin:
    """The cell of each sampled row in one column, and the number of table rows in each cell."""

    cells: npt.NDArray[np.int64]
    masses: Floats

    @classmethod
    def of(cls, places: Positions, masses: Floats, least: int = MIN_CELL_ROWS) -> Margin:
        """Merge neighbouring positions into cells until each cell has enough sampled rows."""
        sampled = np.bincount(places, minlength=len(masses))
        cell_of, cell, selected = np.zeros(len(masses), dtype=np.int64), 0, 0
        for place, number in enumerate(sampled):
            if selected >= least and sampled[place:].sum() >= least:
                cell, selected = cell + 1, 0
            cell_of[place] = cell
            selected += number
        return cls(cell_of[places], np.bincount(cell_of, masses).astype(np.float64))


def calibrate_weights(weights: Floats, margins: Sequence[Margin]) -> Floats:
    """Return the weights that are nearest to the given ones and agree with all margins."""
    total = weights.sum()
    for _round in range(CALIBRATION_ROUNDS):
        for margin in margins:
            selected = np.bincount(margin.cells, weights, minlength=len(margin.masses))
            masses = margin.masses * (total / margin.masses.sum())
            weights = weights * np.divide(masses, selected, out=np.ones_like(masses), where=selected > 0)[margin.cells]
    return weights


TAIL_ROWS_PER_FILE = 8  # with 8 rows per file, one file in three thousand has none


@dataclass(frozen=True)
class Tail:
    """The ends of a column that are known row by row: all positions up to `low`, and all from `high` on."""

    low: int
    high: int

    def holds(self, places: npt.NDArray[np.int64], nulls: int) -> npt.NDArray[np.bool_]:
        """Return which positions are in the tail; `nulls` is the position of rows without a value."""
        return (places <= self.low) | ((places >= self.high) & (places < nulls))


def find_tails(sample: Sample, columns: Mapping[str, ColumnTests], rows: float) -> dict[str, Tail]:
    """Return the ends of columns that contain literals and at most `rows` rows each."""
    found = {}
    for name, tests in columns.items():
        if parse_column(name).key is None and name in sample.columns:
            masses = count_rows(tests, sample.columns[name], sample.weights)[:-1]
            below, above = masses.cumsum(), masses[::-1].cumsum()[::-1]
            literals = np.arange(1, len(masses), 2)  # odd positions are those of the literals themselves
            low = literals[below[literals] <= rows].max(initial=-1)
            high = literals[above[literals] <= rows].min(initial=tests.cuts.highest + 1)
            if low >= 0 or high <= tests.cuts.highest:
                found[name] = Tail(int(low), int(high))
    return found


@dataclass(frozen=True)
class TailReader:
    """Reader of the rows in the tails of some columns."""

    reader: RowReader
    columns: Mapping[str, ColumnTests]
    tails: Mapping[str, Tail]

    def rows(self, files: TableFiles, most_files: int) -> tuple[pa.Table, npt.NDArray[np.int64]] | None:
        """Return the rows and the file number of each row.

        Return None if more than `most_files` files would have to be read.
        """
        wanted = list(self._list_tail_files(files))
        if len(wanted) > most_files:
            return None
        names = sorted({parse_column(name).top for name in self.tails})
        pieces = [self.reader.where(path, names, self._is_in_tails) for _number, path in wanted]
        numbers = [np.full(piece.num_rows, number) for (number, _path), piece in zip(wanted, pieces, strict=True)]
        whole = pa.concat_tables([self.reader.schema.empty_table(), *pieces]).combine_chunks()
        return whole, np.concatenate([np.zeros(0, dtype=np.int64), *numbers])

    def _list_tail_files(self, files: TableFiles) -> Iterator[tuple[int, str]]:
        """Yield the files whose bounds reach into a tail or are unknown."""
        for number, (spec, place) in enumerate(files.in_order()):
            if any(self._overlaps_tail(name, spec.columns.get(name), place) for name in self.tails):
                yield number, spec.paths[place]

    def _overlaps_tail(self, name: str, statistics: ColumnStatistics | None, place: int) -> bool:
        low, high = (None, None) if statistics is None else (statistics.lows[place], statistics.highs[place])
        cuts, tail = self.columns[name].cuts, self.tails[name]
        return low is None or high is None or cuts.place(low) <= tail.low or cuts.place(high) >= tail.high

    def _is_in_tails(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        return is_in_tails(
            {name: extract_values(rows, parse_column(name)) for name in self.tails}, self.columns, self.tails
        )


def is_in_tails(
    values: Mapping[str, pa.Array], columns: Mapping[str, ColumnTests], tails: Mapping[str, Tail]
) -> npt.NDArray[np.bool_]:
    """Return which rows are in the tail of any column."""
    selected = np.zeros(len(next(iter(values.values()))), dtype=bool)
    for name, tail in tails.items():
        tests = columns[name]
        selected |= tail.holds(find_row_positions(tests, values[name]), tests.cuts.highest + 1)
    return selected


@dataclass(frozen=True)
class Sample:
    """Sampled rows with the number of table rows that each represents (`weights`) and the number of its file (`files`).

    Rows that delete files mark are included: they are few, and a rewrite of a table with many begins with compaction.
    `key_shares` has the share of a map's bytes that a key and its values take. `tails` are the ends of columns whose
    rows are all in the sample.
    """

    columns: Mapping[str, pa.Array]
    types: Mapping[str, IcebergType]
    weights: npt.NDArray[np.float64]
    files: npt.NDArray[np.int64]
    key_shares: Mapping[str, float]
    tails: Mapping[str, Tail] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of sampled rows."""
        return len(self.weights)

    def thin(self, rows: int, seed: int) -> Sample:
        """Return a subset of the sample, for a first ranking of many candidates."""
        if self.rows <= rows:
            return self
        chosen = np.sort(np.random.default_rng(seed).permutation(self.rows)[:rows])
        some = self.take(chosen)
        return replace(some, weights=some.weights * (self.weights.sum() / some.weights.sum()), tails={})

    def take(self, places: npt.NDArray[np.intp]) -> Sample:
        """Return the given rows of the sample, with their weights."""
        return replace(
            self,
            columns={name: column.take(pa.array(places)) for name, column in self.columns.items()},
            weights=self.weights[places],
            files=self.files[places],
        )

    def join(self, other: Sample) -> Sample:
        """Return the rows of two samples, file by file."""
        columns = {name: pa.concat_arrays([column, other.columns[name]]) for name, column in self.columns.items()}
        weights, files = (np.concatenate([self.weights, other.weights]), np.concatenate([self.files, other.files]))
        return replace(self, columns=columns, weights=weights, files=files).take(np.argsort(files, kind="stable"))


@dataclass(frozen=True)
class SampleSize:
    """Size of a sample: rows in all, the limit of files, and the number of files in the new layout."""

    rows: int
    files: int
    seed: int
    cut_into: int = 1


def take_sample(
    table: Table,
    files: TableFiles,
    names: Sequence[str],
    size: SampleSize,
    columns: Mapping[str, ColumnTests] | None = None,
) -> Sample:
    """Sample columns of a table; the same files and seed give the same rows.

    For the filtered columns in `columns`, the sample is refined: weights are calibrated to agree with all rows that
    were read, and all rows in tails of these columns are added.
    """
    types = find_column_types(table.schema(), names)
    reader = RowReader(table, sorted({parse_column(name).top for name in types}))
    tests_by_column = {name: tests for name, tests in (columns or {}).items() if name in types}
    drawn = _RowSampler(
        reader, types, {name: tests for name, tests in tests_by_column.items() if is_numeric(tests.kind)}
    )
    sample = drawn.sample(files, size)
    sample = _add_tails(sample, reader, files, size, tests_by_column)
    margins = [
        Margin.of(find_row_positions(tests_by_column[name], sample.columns[name]), masses)
        for name, masses in drawn.masses.items()
    ]
    return replace(sample, weights=calibrate_weights(sample.weights, margins)) if sample.rows else sample


@dataclass
class _RowSampler:
    """Sampler that draws rows of one row group of each file, and counts all rows that it reads."""

    reader: RowReader
    types: Mapping[str, IcebergType]
    counted: Mapping[str, ColumnTests]

    def __post_init__(self) -> None:
        self.masses = {name: np.zeros(count_positions(tests)) for name, tests in self.counted.items()}

    def sample(self, files: TableFiles, size: SampleSize) -> Sample:
        chance = np.random.default_rng(size.seed)
        known = [(spec.paths[place], spec.rows[place]) for spec, place in files.in_order()]
        chosen = np.sort(chance.permutation(len(known))[: size.files])
        total = sum(known[place][1] for place in chosen)
        pieces, weights, numbers = [self.reader.schema.empty_table()], [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
        for number in chosen:
            path, rows = known[number]
            piece = self._draw(path, rows, max(1, round(size.rows * rows / total)), chance)
            pieces.append(piece)
            weights.append(np.full(piece.num_rows, rows / max(1, piece.num_rows)))
            numbers.append(np.full(piece.num_rows, number, dtype=np.int64))
        rows = pa.concat_tables(pieces).combine_chunks()
        scale = files.rows / total if total else 0.0
        return build_sample(rows, self.types, np.concatenate(weights) * scale, np.concatenate(numbers))

    def _draw(self, path: str, rows: int, wanted: int, chance: np.random.Generator) -> pa.Table:
        group = self.reader.one_group(path, chance)
        for name, tests in self.counted.items():
            self.masses[name] += count_rows(tests, extract_values(group, parse_column(name))) * (
                rows / max(1, group.num_rows)
            )
        return group.take(pa.array(np.sort(chance.permutation(group.num_rows)[:wanted])))


def build_sample(
    rows: pa.Table,
    types: Mapping[str, IcebergType],
    weights: npt.NDArray[np.float64],
    files: npt.NDArray[np.int64],
) -> Sample:
    """Build a sample of the columns of these types from rows, their weights and the numbers of their files."""
    columns = {name: extract_values(rows, parse_column(name)) for name in types}
    shares = {name: _key_share(rows, parse_column(name), columns[name]) for name in types if parse_column(name).key}
    return Sample(columns, types, weights, files, shares)


def _add_tails(
    sample: Sample, reader: RowReader, files: TableFiles, size: SampleSize, columns: Mapping[str, ColumnTests]
) -> Sample:
    """Add every row in a tail to the sample, if tails are requested and not too many files have them."""
    is_whole = sample.rows >= files.rows
    tails = {} if is_whole else find_tails(sample, columns, TAIL_ROWS_PER_FILE * size.cut_into)
    found = TailReader(reader, columns, tails).rows(files, size.files) if tails else None
    if found is None:
        return sample
    rows, numbers = found
    whole = build_sample(rows, sample.types, np.ones(rows.num_rows), numbers)
    kept = sample.take(np.flatnonzero(~is_in_tails(sample.columns, columns, tails)))
    left = max(0.0, files.rows - rows.num_rows)
    scaled = replace(kept, weights=kept.weights * (left / kept.weights.sum() if kept.rows else 1.0))
    return replace(scaled.join(whole), tails=tails)


def _key_share(rows: pa.Table, source: ColumnSource, values: pa.Array) -> float:
    """Return the share of a map's bytes that one key takes with its values."""
    whole = extract_values(rows, replace(source, key=None))
    everything = sum(pc.sum(pc.binary_length(part)).as_py() or 0 for part in (whole.keys, whole.items))
    length = len((source.key or "").encode()) * (len(values) - values.null_count)
    return ((pc.sum(pc.binary_length(values)).as_py() or 0) + length) / everything if everything else 1.0
