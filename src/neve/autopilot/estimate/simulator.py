"""Simulator of layouts: order a sample, split it into files, and evaluate the filters on them.

The z-order curve is the one of compaction: each column is split into ranges of equal row counts inside each
partition, and the bits of the range numbers are interleaved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.transforms import parse_transform

from neve.autopilot.estimate.column_ranks import PositionedColumn, RankedColumn, SamplePieces
from neve.autopilot.estimate.columns import DEFAULT_BOUND_LENGTH
from neve.errors import ConfigError
from neve.lake.read.partition_stats import TargetSizes
from neve.predicate.file_evidence import build_partition_evidence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.autopilot.estimate.sample import Sample
    from neve.autopilot.estimate.table_files import TableExtent
    from neve.autopilot.layout import Layout, PartField
    from neve.predicate.compiled_filters import CompiledFilters, Evidence


Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
BITS = 6  # bits of a column, as in compaction
RANGES = 1 << BITS
ROUNDING = 1e-9


def compute_zorder(ranks: Sequence[Numbers], groups: Numbers, weights: Floats) -> Numbers:
    """Return the positions of rows on the curve, from each row's ranks (below 0: null), partition and weight."""
    return interleave_bits([assign_ranges(one, groups, weights) for one in ranks])


def interleave_bits(numbers: Sequence[Numbers]) -> Numbers:
    """Interleave the bits of range numbers, the highest bit of each first.

    >>> interleave_bits([np.array([1]), np.array([2])]).tolist()
    [6]
    """
    woven = np.zeros(len(numbers[0]), dtype=np.int64)
    for bit in range(BITS):
        for position, number in enumerate(numbers):
            woven |= ((number >> bit) & 1) << (bit * len(numbers) + (len(numbers) - 1 - position))
    return woven


def assign_ranges(ranks: Numbers, groups: Numbers, weights: Floats) -> Numbers:
    """Return the number of boundaries of its group that each value has passed; null comes first."""
    filled = np.flatnonzero(ranks >= 0)
    result = np.zeros(len(ranks), dtype=np.int64)
    if not len(filled):
        return result
    order = filled[np.lexsort((ranks[filled], groups[filled]))]
    group, rank = groups[order], ranks[order]
    begins = np.concatenate(([True], group[1:] != group[:-1]))
    sizes = np.diff(np.append(np.flatnonzero(begins), len(order)))
    passed = _count_boundaries(group, rank, weights[order], begins)
    # Boundaries of equal values are merged: range numbers that no row has are closed up, as in compaction.
    steps = np.concatenate(([1], np.where(begins[1:], 1, passed[1:] != passed[:-1]))).cumsum()
    first = np.repeat(steps[begins], sizes)
    result[order] = steps - first + np.repeat((passed[begins] > 0).astype(np.int64), sizes)
    return result


def _count_boundaries(group: Numbers, rank: Numbers, weight: Floats, begins: npt.NDArray[np.bool_]) -> Numbers:
    """Return the range of equal weight that each value ends in, within its group.

    Boundaries of equal values are counted separately.
    """
    sums = weight.cumsum()
    starts = np.flatnonzero(begins)
    sizes = np.diff(np.append(starts, len(group)))
    before = np.repeat(sums[starts] - weight[starts], sizes)
    whole = np.repeat(sums[starts + sizes - 1], sizes) - before
    ends = np.flatnonzero(np.concatenate(((group[1:] != group[:-1]) | (rank[1:] != rank[:-1]), [True])))
    upto = np.repeat(sums[ends], np.diff(np.concatenate(([-1], ends)))) - before
    # A boundary exactly at the end of a value belongs to the next value. Rounding errors of the sum must not move it.
    passed: Numbers = np.ceil(upto / whole * RANGES - ROUNDING).astype(np.int64) - 1
    return np.clip(passed, 0, RANGES - 1)


@dataclass(frozen=True)
class SimulatedScan:
    """The share of the table's bytes that each filter would read, and the number of files and partitions."""

    shares: Floats
    files: int
    partitions: int
    median_partition_bytes: float


@dataclass(frozen=True)
class _Partitions:
    """The sample by partition: the partition of each row, and the evidence of each about its source columns."""

    of_row: Numbers
    number: int
    view: tuple[Evidence, ...]


@dataclass(frozen=True)
class _OrderedSample:
    """The sample in the order of a layout."""

    index: Numbers
    parts: _Partitions


class Simulator:
    """Simulator of layouts on one sample.

    Intermediate results that several layouts share are computed once.
    """

    def __init__(self, sample: Sample, compiled: CompiledFilters, extent: TableExtent) -> None:
        self.sample = sample
        self.compiled = compiled
        self.extent = extent
        self._ranked: dict[str, RankedColumn] = {}
        self._placed: dict[tuple[str, int], PositionedColumn] = {}
        self._fields: dict[tuple[str, str], tuple[Numbers, Evidence | None]] = {}
        self._parts: dict[tuple[tuple[str, str], ...], _Partitions] = {}

    def scan(self, layout: Layout, weights: Floats | None = None) -> SimulatedScan:
        """Return what each filter reads of a table with this layout.

        Other weights than the sample's simulate another sample.
        """
        weights = self.sample.weights if weights is None else weights
        return self._cut(self._lay_out(layout, weights), layout, weights)

    def thin(self, rows: int, seed: int) -> Simulator:
        """Return a simulator on a subset of the sample."""
        sample = self.sample.thin(rows, seed)
        return self if sample is self.sample else Simulator(sample, self.compiled, self.extent)

    def rank(self, name: str) -> RankedColumn:
        """Return a sampled column by ranks."""
        if name not in self._ranked:
            if name not in self.sample.columns:
                raise ConfigError(
                    f"the layout uses {name!r}, expected one of the sampled columns: {', '.join(self.sample.columns)}"
                )
            self._ranked[name] = RankedColumn.of(
                self.sample.types[name], self.sample.columns[name], self.sample.weights
            )
        return self._ranked[name]

    def _lay_out(self, layout: Layout, weights: Floats) -> _OrderedSample:
        sources = {one.name: one.source for one in layout.promoted}
        parts = self._partition(layout.partition, sources)
        ranks = [self.rank(sources.get(name, name)).ranks for name in layout.zorder or layout.sort]
        rows = np.flatnonzero(weights > 0)
        group, keys = parts.of_row[rows], [one[rows] for one in ranks]
        if layout.zorder:
            keys = [compute_zorder(keys, group, weights[rows])]
        # Without an order, rows keep the order of the sample: file by file, in the order of their writing.
        order = np.lexsort((*reversed(keys), group))
        return _OrderedSample(rows[order], parts)

    def _partition(self, fields: Sequence[PartField], sources: Mapping[str, str]) -> _Partitions:
        names = tuple((sources.get(field.column, field.column), field.transform) for field in fields)
        if names not in self._parts:
            made = [self._field(*name) for name in names]
            combined = np.zeros(self.sample.rows, dtype=np.int64)
            for codes, _evidence in made:
                combined = combined * (int(codes.max(initial=0)) + 1) + codes
            _values, firsts, of_row = np.unique(combined, return_index=True, return_inverse=True)
            view = tuple(evidence.select(codes[firsts]) for codes, evidence in made if evidence is not None)
            self._parts[names] = _Partitions(of_row.astype(np.int64), len(firsts), view)
        return self._parts[names]

    def _field(self, column: str, transform: str) -> tuple[Numbers, Evidence | None]:
        """Return each row's partition value as a number, and the evidence of the values about the column."""
        if (column, transform) not in self._fields:
            kind, how = self.sample.types[column], parse_transform(transform)
            made: Any = how.pyarrow_transform(kind)(self.sample.columns[column])
            made = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
            encoded = made.dictionary_encode(null_encoding="encode")
            codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            tests = self.compiled.columns.get(column)
            evidence = build_partition_evidence(tests, how, encoded.dictionary.to_pylist()) if tests else None
            self._fields[column, transform] = (codes, evidence)
        return self._fields[column, transform]

    def _cut(self, laid: _OrderedSample, layout: Layout, weights: Floats) -> SimulatedScan:
        index = laid.index
        weight, group = weights[index], laid.parts.of_row[index]
        sizes = TargetSizes(layout.target_file_bytes or self.extent.target_bytes)
        row_bytes = self.extent.bytes / weight.sum()
        masses = np.bincount(group, weights=weight, minlength=laid.parts.number).astype(np.float64)
        files = np.fromiter((sizes.outputs(int(mass * row_bytes)) for mass in masses), np.int64, len(masses))
        piece = _assign_files(weight, group, masses, files)
        starts = np.flatnonzero(np.diff(piece, prepend=-1))
        pieces = SamplePieces(index, starts, np.add.reduceat(weight, starts))
        part_view = [evidence.select(group[starts]) for evidence in laid.parts.view]
        matches = self.compiled.matches([part_view, self._bounds(layout, pieces)], len(starts))
        shares = matches @ pieces.rows / weight.sum()
        return SimulatedScan(
            shares, int(files[masses > 0].sum()), int((masses > 0).sum()), _median_by_bytes(masses * row_bytes)
        )

    def _bounds(self, layout: Layout, pieces: SamplePieces) -> list[Evidence]:
        lengths = {**self.extent.lengths, **dict.fromkeys(find_layout_columns(layout), DEFAULT_BOUND_LENGTH)}
        sources = {one.name: one.source for one in layout.promoted}
        ordered = {sources.get(name, name) for name in (*layout.sort, *layout.zorder)}
        view: list[Evidence] = []
        for name in self.compiled.columns:
            if name in lengths and name in self.sample.columns:
                placed = self._place(name, lengths[name])
                view.append(placed.bounds(name, pieces, is_ordered=name in ordered))
        return view

    def _place(self, name: str, length: int) -> PositionedColumn:
        if (name, length) not in self._placed:
            cuts, tail = self.compiled.columns[name].cuts, self.sample.tails.get(name)
            placed = self.rank(name).position(self.sample.types[name], cuts, length, tail)
            self._placed[name, length] = placed.extend_to(*self.extent.ends.get(name, (None, None)))
        return self._placed[name, length]


def find_layout_columns(layout: Layout) -> set[str]:
    """Return the columns of a layout.

    New files have bounds of them, whether or not the old files had.
    """
    sources = {one.name: one.source for one in layout.promoted}
    names = {*layout.sort, *layout.zorder, *(field.column for field in layout.partition), *sources}
    return {sources.get(name, name) for name in names}


def _assign_files(weight: Floats, group: Numbers, masses: Floats, files: Numbers) -> Numbers:
    """Return the file of each row: the files of a partition have equal numbers of rows.

    This holds for a z-order too, although a writer may keep rows of one position on the curve together: either way a
    file begins with a few rows of the position where the previous file ends, and these widen its bounds.
    """
    middle = weight.cumsum() - weight / 2
    before = np.concatenate(([0.0], masses.cumsum()[:-1]))
    number = ((middle - before[group]) / masses[group] * files[group]).astype(np.int64)
    offset = np.concatenate(([0], files.cumsum()[:-1]))
    pieces: Numbers = offset[group] + np.clip(number, 0, files[group] - 1)
    return pieces


def _median_by_bytes(sizes: Floats) -> float:
    """Return the partition size at which half of the bytes are in smaller partitions."""
    ordered = np.sort(sizes)
    return float(ordered[np.searchsorted(ordered.cumsum(), ordered.sum() / 2)]) if len(ordered) else 0.0
