"""File pruning: the files that filters must read now, by partition values and column bounds of the manifests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pyiceberg.transforms import UnknownTransform, VoidTransform

from neve.autopilot.estimate.columns import find_column_types
from neve.autopilot.estimate.table_files import read_table_files
from neve.predicate.compiled_filters import ALWAYS, compile_filters
from neve.predicate.file_evidence import Bounds, build_partition_evidence
from neve.predicate.filters import iter_tests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.table import Table

    from neve.autopilot.estimate.table_files import ColumnStatistics, SpecFiles, TableFiles
    from neve.autopilot.workload.queries import Query
    from neve.predicate.comparable import Comparable
    from neve.predicate.compiled_filters import ColumnTests, CompiledFilters, Evidence
    from neve.predicate.filters import Filter


FILES_PER_BATCH = 4096  # files per batch, so that thousands of filters don't need gigabytes of memory

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Baseline:
    """The share of the table's bytes that each filter reads now, and the table's files, bytes and rows."""

    shares: Floats
    files: int
    bytes: int
    rows: int


def measure_baseline(table: Table, compiled: CompiledFilters, files: TableFiles) -> Baseline:
    """Evaluate every filter on every file, by partition and by bounds, as engines do when they plan."""
    read, total = np.zeros(len(compiled.roots)), 0.0
    for spec in files.specs.values():
        weights = files.weights(spec)
        total += float(weights.sum())
        views = build_spec_views(table, compiled, spec)
        for first in range(0, len(weights), FILES_PER_BATCH):
            part = slice(first, first + FILES_PER_BATCH)
            some = weights[part]
            read += compiled.matches([[one.select(part) for one in view] for view in views], len(some)) @ some
    return Baseline(read / total if total else read, files.files, files.bytes, files.rows)


def build_spec_views(table: Table, compiled: CompiledFilters, spec: SpecFiles) -> tuple[list[Evidence], list[Evidence]]:
    """Return the evidence of partitions, and that of bounds, about the files of a spec."""
    statistics = [
        _build_bounds(compiled.columns[name], one) for name, one in spec.columns.items() if name in compiled.columns
    ]
    return _build_partition_view(table, compiled, spec), list(statistics)


def _build_partition_view(table: Table, compiled: CompiledFilters, spec: SpecFiles) -> list[Evidence]:
    view: list[Evidence] = []
    for place, part in enumerate(table.specs()[spec.spec_id].fields):
        name = table.schema().find_column_name(part.source_id)
        tests = compiled.columns.get(name) if name else None
        if tests is None or isinstance(part.transform, (VoidTransform, UnknownTransform)):
            continue
        view.append(build_partition_evidence(tests, part.transform, [values[place] for values in spec.partitions]))
    return view


def _build_bounds(tests: ColumnTests, statistics: ColumnStatistics) -> Bounds:
    cuts = tests.cuts
    only_nan = np.array(statistics.only_nan, dtype=bool)
    low, high = (
        _find_positions(tests, statistics.lows, cuts.lowest),
        _find_positions(tests, statistics.highs, cuts.highest),
    )
    return Bounds(
        column=tests.column,
        low=np.where(only_nan, cuts.highest + 1, low),  # NaN satisfies no comparison
        high=np.where(only_nan, cuts.lowest - 1, high),
        has_null=np.array(statistics.may_have_null, dtype=bool),
        only_null=np.array(statistics.only_null, dtype=bool),
    )


def _find_positions(tests: ColumnTests, bounds: Sequence[Comparable | None], unknown: int) -> npt.NDArray[np.int64]:
    places = [unknown if bound is None else tests.cuts.place(bound) for bound in bounds]
    return np.array(places, dtype=np.int64)


def collect_filters(table: str, queries: Iterable[Query]) -> tuple[Filter, ...]:
    """Return the filters of queries on a table, each filter once."""
    return tuple(dict.fromkeys(use.filter for query in queries for use in query.uses if use.table == table))


def find_files_read(table: Table, filters: Sequence[Filter]) -> frozenset[str]:
    """Return the paths of main's files that at least one filter can't rule out, neither by partition nor by bounds.

    A filter that no statistics can answer reads everything in any layout, so it is no evidence about any file.
    """
    names = sorted({test.column for one in filters for test in iter_tests(one)})
    types = find_column_types(table.schema(), names)
    every = compile_filters(filters, types)
    helped = [one for one, root in zip(every.filters, every.roots, strict=True) if root != ALWAYS]
    if not helped:
        return frozenset()
    compiled = compile_filters(helped, types)
    specs = read_table_files(table, names).specs.values()
    return frozenset(path for spec in specs for path in _matching_paths(table, compiled, spec))


def _matching_paths(table: Table, compiled: CompiledFilters, spec: SpecFiles) -> Iterator[str]:
    views = build_spec_views(table, compiled, spec)
    for first in range(0, len(spec.paths), FILES_PER_BATCH):
        part = slice(first, first + FILES_PER_BATCH)
        paths = spec.paths[part]
        matches = compiled.matches([[one.select(part) for one in view] for view in views], len(paths))
        yield from (paths[place] for place in np.flatnonzero(matches.any(axis=0)))
