"""A table as it was looked at: its files, what queries read of them, and a sample of its rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.autopilot.estimate.baseline import Baseline, baseline
from neve.autopilot.estimate.columns import types_of
from neve.autopilot.estimate.compiled import compile_filters
from neve.autopilot.estimate.extent import Extent
from neve.autopilot.estimate.files import table_files
from neve.autopilot.estimate.sample import Sample, Size, take_sample
from neve.autopilot.estimate.simulate import Simulator, bounded_by
from neve.autopilot.recommend.candidates import Ground
from neve.autopilot.recommend.current import current_layout, target_bytes
from neve.autopilot.recommend.evaluate import Trial, Workload
from neve.autopilot.recommend.projection import Projection, column_bytes

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.autopilot.estimate.compiled import Compiled
    from neve.autopilot.estimate.files import TableFiles
    from neve.autopilot.recommend.demand import Demand
    from neve.autopilot.recommend_config import RecommendConfig


@dataclass(frozen=True)
class Looked:
    """What decisions are made from, once the table was read."""

    ground: Ground
    workload: Workload
    baseline: Baseline
    compiled: Compiled
    trial: Trial
    ranking: Simulator  # on a small part of it
    bounded: frozenset[str]


def look(table: Table, demand: Demand, config: RecommendConfig) -> Looked:
    """Read the manifests and a sample of the rows; nothing is written."""
    current = current_layout(table)
    names = sorted({*demand.filtered(), *demand.ordered(), *bounded_by(current)})
    types = types_of(table.schema(), names)
    compiled = compile_filters([use.filter for use in demand.uses], types)
    files = table_files(table, names)
    today = baseline(table, compiled, files)
    extent = Extent.of(table, files, compiled, target_bytes(table))
    size = Size(config.sample_rows, config.sample_files, config.seed, extent.files)
    sample = take_sample(table, files, list(types), size, compiled.columns)
    simulator = Simulator(sample, compiled, extent)
    return Looked(
        ground=Ground(
            current=current,
            demand=demand,
            types=types,
            distinct={name: len(simulator.ranked(name).values) for name in types},
            files=extent.files,
        ),
        workload=_workload(table, demand, compiled, today, files, sample),
        baseline=today,
        compiled=compiled,
        trial=Trial.of(simulator, config.seed),
        ranking=simulator.thinned(config.ranking_rows, config.seed),
        bounded=frozenset(extent.lengths),
    )


def _workload(
    table: Table, demand: Demand, compiled: Compiled, today: Baseline, files: TableFiles, sample: Sample
) -> Workload:
    counts = Counter(use.filter for use in demand.uses)
    columns = {one: set[str]() for one in compiled.filters}
    for use in demand.uses:
        columns[use.filter].update(use.columns)
    sizes = column_bytes(table.schema(), files.column_bytes)
    projection = Projection([frozenset(columns[one]) for one in compiled.filters], sizes, sample.key_shares)
    asked = np.array([counts[one] for one in compiled.filters], dtype=np.float64)
    return Workload(asked, today.shares, projection)
