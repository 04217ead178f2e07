"""A table as it was looked at: its files, what queries read of them, and a sample of its rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.autopilot.estimate.baseline import Baseline, baseline
from neve.autopilot.estimate.columns import cut_lengths, types_of
from neve.autopilot.estimate.compiled import compile_filters
from neve.autopilot.estimate.files import table_files
from neve.autopilot.estimate.sample import Sample, Size, take_sample
from neve.autopilot.estimate.simulate import Extent, Simulator, bounded_by
from neve.autopilot.recommend.candidates import Ground
from neve.autopilot.recommend.current import current_layout, target_bytes
from neve.autopilot.recommend.evaluate import Workload
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
    simulator: Simulator  # on the whole sample
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
    size = Size(config.sample_rows, config.sample_files, config.seed)
    sample = take_sample(table, files, list(types), size)
    target = target_bytes(table)
    lengths = cut_lengths(table.schema(), dict(table.properties))
    extent = Extent(files.bytes, target, lengths, _ends(compiled, files))
    simulator = Simulator(sample, compiled, extent)
    return Looked(
        ground=Ground(
            current=current,
            demand=demand,
            types=types,
            distinct={name: len(simulator.ranked(name).values) for name in types},
            files=max(1, files.bytes // target),
        ),
        workload=_workload(table, demand, compiled, today, files, sample),
        baseline=today,
        compiled=compiled,
        simulator=simulator,
        ranking=Simulator(sample.thinned(config.ranking_rows, config.seed), compiled, extent),
        bounded=frozenset(lengths),
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


def _ends(compiled: Compiled, files: TableFiles) -> dict[str, tuple[int | None, int | None]]:
    """The places of the smallest and largest value of each column, where every file tells."""
    found: dict[str, tuple[int | None, int | None]] = {}
    for name, tests in compiled.columns.items():
        told = [spec.columns[name] for spec in files.specs.values() if name in spec.columns]
        lows = [tests.cuts.place(low) for one in told for low in one.lows if low is not None]
        highs = [tests.cuts.place(high) for one in told for high in one.highs if high is not None]
        found[name] = (min(lows, default=None), max(highs, default=None))
    return found
