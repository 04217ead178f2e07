"""Estimates beside the truth: layouts are made for real, and their manifests say what each query reads.

The estimate knows only the table as it was, and a sample of its rows.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyiceberg.catalog.sql import SqlCatalog

from bench.autopilot_files import written
from neve.autopilot.config import RecommendConfig
from neve.autopilot.estimate.columns import find_column_types
from neve.autopilot.estimate.file_pruning import measure_baseline
from neve.autopilot.estimate.sample import SampleSize, take_sample
from neve.autopilot.estimate.simulator import Simulator
from neve.autopilot.estimate.table_files import TableExtent, read_table_files
from neve.autopilot.layout import Layout
from neve.autopilot.recommend.candidates import iter_prunable_tests
from neve.autopilot.recommend.evaluation import (
    EvaluationSample,
    FilterWorkload,
    Projection,
    estimate_candidate,
    rank_candidates,
)
from neve.predicate.compiled_filters import compile_filters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyiceberg.table import Table

    from neve.predicate.compiled_filters import CompiledFilters
    from neve.predicate.filters import Filter

ROUNDS = 5
CONFIG = RecommendConfig()


@dataclass(frozen=True)
class Scale:
    """How large tables are, how much of them is sampled, and what is asked.

    Each seed is one of queries' literals and of a sample.
    """

    scale: float = 0.5
    files: int = 600
    sample_rows: int = 500_000  # a sixth of `lineitem`, and two thirds of `orders`
    queries: int = 150
    seeds: tuple[int, ...] = (3,)


@dataclass(frozen=True)
class Compared:
    """A layout's scanned share of bytes, estimated and true; and by how many points the estimates of queries err.

    `covered` says whether the interval that a recommendation would tell holds the truth.
    """

    table: str
    layout: str
    seed: int
    estimate: float
    truth: float
    mean_error_points: float
    max_error_points: float
    covered: bool

    def __str__(self) -> str:
        return (
            f"{self.table:<9} {self.layout:<74} {self.seed:>5} {self.estimate:6.1%} {self.truth:6.1%}  "
            f"mean {self.mean_error_points:.2f}  max {self.max_error_points:.2f}"
        )


@dataclass(frozen=True)
class Errors:
    """All layouts of some tables."""

    layouts: tuple[Compared, ...]
    candidates_per_s: float

    @property
    def mean_error_points(self) -> float:
        """The mean over queries and layouts."""
        return float(np.mean([one.mean_error_points for one in self.layouts]))

    @property
    def max_error_points(self) -> float:
        """The query that is furthest off, of all layouts."""
        return max(one.max_error_points for one in self.layouts)

    @property
    def covered(self) -> float:
        """The share of intervals that hold the truth."""
        return float(np.mean([one.covered for one in self.layouts]))


@dataclass(frozen=True)
class Ground:
    """A table as it was, looked at for one set of queries."""

    name: str
    seed: int
    compiled: CompiledFilters
    trial: EvaluationSample
    workload: FilterWorkload

    @classmethod
    def of(cls, before: Before, filters: Sequence[Filter], size: Scale, seed: int) -> Ground:
        """The queries, and a sample."""
        table = before.table
        compiled = compile_filters(filters, find_column_types(table.schema(), _columns_of(filters)))
        files = read_table_files(table, compiled.columns)
        extent = TableExtent.of(table, files, compiled, files.bytes // size.files)
        names = sorted({*compiled.columns, *before.columns})
        how_much = SampleSize(size.sample_rows, size.files, seed, extent.files)
        sample = take_sample(table, files, names, how_much, compiled.columns)
        shares = np.ones(len(compiled.filters))
        workload = FilterWorkload(shares, shares, Projection([], {}, {}))
        return cls(
            before.name, seed, compiled, EvaluationSample.of(Simulator(sample, compiled, extent), seed), workload
        )

    def candidates_per_s(self, layouts: Sequence[Layout]) -> float:
        """How many layouts are ranked in a second."""
        ranking = self.trial.whole.thin(CONFIG.ranking_rows, self.seed)
        started = time.perf_counter()
        for _round in range(ROUNDS):
            rank_candidates(ranking, self.workload, layouts)
        return ROUNDS * len(layouts) / (time.perf_counter() - started)

    def compared(self, layout: Layout, made: Table) -> Compared:
        """The estimate of a layout beside what queries read of a table that has it."""
        estimate = estimate_candidate(self.trial, self.workload, layout, CONFIG)
        truth = measure_baseline(made, self.compiled, read_table_files(made, self.compiled.columns)).shares
        errors = 100 * np.abs(estimate.scan.shares - truth)
        saved = self.workload.reduction(layout, truth)
        return Compared(
            self.name,
            str(layout),
            self.seed,
            float(estimate.scan.shares.mean()),
            float(truth.mean()),
            float(errors.mean()),
            float(errors.max()),
            estimate.reduction.low <= saved <= estimate.reduction.high,
        )


@dataclass(frozen=True)
class Before:
    """A table whose rows lie as they came, and a catalog where the same rows can be laid out otherwise."""

    name: str
    catalog: SqlCatalog
    table: Table
    rows: pa.Table
    rows_per_file: int
    columns: tuple[str, ...]  # that layouts are about

    @classmethod
    def of(cls, folder: Path, name: str, rows: pa.Table, files: int, columns: Sequence[str]) -> Before:
        """Rows in so many files."""
        catalog = SqlCatalog(name, uri=f"sqlite:///{folder / name}.db", warehouse=f"file://{folder}")
        catalog.create_namespace("made")
        rows_per_file = -(-rows.num_rows // files)
        table = written(catalog, f"{name}_before", rows, Layout(), rows_per_file)
        return cls(name, catalog, table, rows, rows_per_file, tuple(columns))

    def compared(self, grounds: Sequence[Ground], layouts: Sequence[Layout]) -> Iterator[Compared]:
        """Every layout made once, and held against the estimates of every ground."""
        for layout in layouts:
            made = written(self.catalog, f"{self.name}_made", self.rows, layout, self.rows_per_file)
            yield from (ground.compared(layout, made) for ground in grounds)
            self.catalog.drop_table(made.name())
            shutil.rmtree(made.location().removeprefix("file://"))


def compare(before: Before, queries: Mapping[int, Sequence[Filter]], layouts: Sequence[Layout], size: Scale) -> Errors:
    """Estimate every layout for the queries of each seed, make every layout, and compare."""
    grounds = [Ground.of(before, filters, size, seed) for seed, filters in queries.items()]
    speed = grounds[0].candidates_per_s(layouts)
    return Errors(tuple(before.compared(grounds, layouts)), speed)


def joined(every: Sequence[Errors]) -> Errors:
    """The errors of several tables in one."""
    layouts = tuple(one for errors in every for one in errors.layouts)
    return Errors(layouts, float(np.mean([errors.candidates_per_s for errors in every])))


def _columns_of(filters: Sequence[Filter]) -> list[str]:
    return sorted({test.column for one in filters for test in iter_prunable_tests(one)})
