"""What a layout would make queries read: the sample laid out, cut into files, and asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.transforms import parse_transform

from neve.autopilot.estimate.baseline import parted
from neve.autopilot.estimate.columns import CUT_DEFAULT
from neve.autopilot.estimate.ranked import Pieces, Placed, Ranked
from neve.autopilot.estimate.zorder import curve
from neve.errors import ConfigError
from neve.lake.target_sizes import TargetSizes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.autopilot.estimate.compiled import Compiled, Evidence
    from neve.autopilot.estimate.extent import Extent
    from neve.autopilot.estimate.sample import Sample
    from neve.autopilot.layout import Layout, PartField

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Scan:
    """The share of the table's bytes that each filter would read, and in how many files and partitions they lie."""

    shares: Floats
    files: int
    partitions: int
    median_partition_bytes: float


@dataclass(frozen=True)
class _Parts:
    """The sample by partitions: each row's, and what each tells of the columns that it was made from."""

    of_row: Numbers
    number: int
    view: tuple[Evidence, ...]


@dataclass(frozen=True)
class _Laid:
    """The sample in the order of a layout."""

    index: Numbers
    parts: _Parts


class Simulator:
    """Tries layouts on one sample; what several of them need is worked out once."""

    def __init__(self, sample: Sample, compiled: Compiled, extent: Extent) -> None:
        self.sample = sample
        self.compiled = compiled
        self.extent = extent
        self._ranked: dict[str, Ranked] = {}
        self._placed: dict[tuple[str, int], Placed] = {}
        self._fields: dict[tuple[str, str], tuple[Numbers, Evidence | None]] = {}
        self._parts: dict[tuple[tuple[str, str], ...], _Parts] = {}

    def scan(self, layout: Layout, weights: Floats | None = None) -> Scan:
        """What each filter reads of a table of this layout; other weights than the sample's make another sample."""
        weights = self.sample.weights if weights is None else weights
        return self._cut(self._lay_out(layout, weights), layout, weights)

    def thinned(self, rows: int, seed: int) -> Simulator:
        """The same on a part of the sample."""
        sample = self.sample.thinned(rows, seed)
        return self if sample is self.sample else Simulator(sample, self.compiled, self.extent)

    def ranked(self, name: str) -> Ranked:
        """A sampled column by ranks."""
        if name not in self._ranked:
            if name not in self.sample.columns:
                raise ConfigError(
                    f"a layout names {name!r}, expected one of the sampled columns: {', '.join(self.sample.columns)}"
                )
            self._ranked[name] = Ranked.of(self.sample.types[name], self.sample.columns[name], self.sample.weights)
        return self._ranked[name]

    def _lay_out(self, layout: Layout, weights: Floats) -> _Laid:
        sources = {one.name: one.source for one in layout.promoted}
        parts = self._partition(layout.partition, sources)
        ranks = [self.ranked(sources.get(name, name)).ranks for name in layout.zorder or layout.sort]
        rows = np.flatnonzero(weights > 0)
        group, keys = parts.of_row[rows], [one[rows] for one in ranks]
        if layout.zorder:
            keys = [curve(keys, group, weights[rows])]
        # Without an order rows come as they were sampled: file by file, as those were written.
        order = np.lexsort((*reversed(keys), group))
        return _Laid(rows[order], parts)

    def _partition(self, fields: Sequence[PartField], sources: Mapping[str, str]) -> _Parts:
        names = tuple((sources.get(field.column, field.column), field.transform) for field in fields)
        if names not in self._parts:
            made = [self._field(*name) for name in names]
            combined = np.zeros(self.sample.rows, dtype=np.int64)
            for codes, _evidence in made:
                combined = combined * (int(codes.max(initial=0)) + 1) + codes
            _values, firsts, of_row = np.unique(combined, return_index=True, return_inverse=True)
            view = tuple(evidence.chosen(codes[firsts]) for codes, evidence in made if evidence is not None)
            self._parts[names] = _Parts(of_row.astype(np.int64), len(firsts), view)
        return self._parts[names]

    def _field(self, column: str, transform: str) -> tuple[Numbers, Evidence | None]:
        """Each row's partition value by number, and what the values tell of the column."""
        if (column, transform) not in self._fields:
            kind, how = self.sample.types[column], parse_transform(transform)
            made: Any = how.pyarrow_transform(kind)(self.sample.columns[column])
            made = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
            encoded = made.dictionary_encode(null_encoding="encode")
            codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            tests = self.compiled.columns.get(column)
            evidence = parted(tests, how, encoded.dictionary.to_pylist()) if tests else None
            self._fields[column, transform] = (codes, evidence)
        return self._fields[column, transform]

    def _cut(self, laid: _Laid, layout: Layout, weights: Floats) -> Scan:
        index = laid.index
        weight, group = weights[index], laid.parts.of_row[index]
        sizes = TargetSizes(layout.target_file_bytes or self.extent.target_bytes)
        row_bytes = self.extent.bytes / weight.sum()
        masses = np.bincount(group, weights=weight, minlength=laid.parts.number).astype(np.float64)
        files = np.fromiter((sizes.outputs(int(mass * row_bytes)) for mass in masses), np.int64, len(masses))
        piece = _pieces(weight, group, masses, files)
        starts = np.flatnonzero(np.diff(piece, prepend=-1))
        pieces = Pieces(index, starts, np.add.reduceat(weight, starts))
        part_view = [evidence.chosen(group[starts]) for evidence in laid.parts.view]
        matches = self.compiled.matches([part_view, self._bounds(layout, pieces)], len(starts))
        shares = matches @ pieces.rows / weight.sum()
        return Scan(shares, int(files[masses > 0].sum()), int((masses > 0).sum()), _median(masses * row_bytes))

    def _bounds(self, layout: Layout, pieces: Pieces) -> list[Evidence]:
        lengths = {**self.extent.lengths, **dict.fromkeys(bounded_by(layout), CUT_DEFAULT)}
        sources = {one.name: one.source for one in layout.promoted}
        ordered = {sources.get(name, name) for name in (*layout.sort, *layout.zorder)}
        view: list[Evidence] = []
        for name in self.compiled.columns:
            if name in lengths and name in self.sample.columns:
                placed = self._place(name, lengths[name])
                view.append(placed.bounds(name, pieces, is_ordered=name in ordered))
        return view

    def _place(self, name: str, length: int) -> Placed:
        if (name, length) not in self._placed:
            cuts, tail = self.compiled.columns[name].cuts, self.sample.tails.get(name)
            placed = self.ranked(name).placed(self.sample.types[name], cuts, length, tail)
            self._placed[name, length] = placed.reaching(*self.extent.ends.get(name, (None, None)))
        return self._placed[name, length]


def bounded_by(layout: Layout) -> set[str]:
    """The columns that a layout is about: files of it have bounds of them, whatever they had before."""
    sources = {one.name: one.source for one in layout.promoted}
    names = {*layout.sort, *layout.zorder, *(field.column for field in layout.partition), *sources}
    return {sources.get(name, name) for name in names}


def _pieces(weight: Floats, group: Numbers, masses: Floats, files: Numbers) -> Numbers:
    """The file of each row: files of a partition have as many rows each.

    Of a z-order too, though a writer may keep rows of one place on the curve together: either way a file begins with a
    few rows of the place where the one before it ends, and these make its bounds wider.
    """
    middle = weight.cumsum() - weight / 2
    before = np.concatenate(([0.0], masses.cumsum()[:-1]))
    number = ((middle - before[group]) / masses[group] * files[group]).astype(np.int64)
    offset = np.concatenate(([0], files.cumsum()[:-1]))
    pieces: Numbers = offset[group] + np.clip(number, 0, files[group] - 1)
    return pieces


def _median(sizes: Floats) -> float:
    """The size of the partition that half of the bytes lie in smaller ones than."""
    ordered = np.sort(sizes)
    return float(ordered[np.searchsorted(ordered.cumsum(), ordered.sum() / 2)]) if len(ordered) else 0.0
