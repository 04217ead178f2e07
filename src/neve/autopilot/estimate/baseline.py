"""What a table's files make queries read today: exactly, from its manifests alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyiceberg.transforms import BucketTransform, UnknownTransform, VoidTransform

from neve.autopilot.estimate.bounds import NO_BUCKET, Bounds, Buckets
from neve.autopilot.estimate.transforms import span_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from neve.autopilot.estimate.compiled import Compiled, Evidence
    from neve.autopilot.estimate.files import SpecFiles, TableFiles, Told
    from neve.autopilot.estimate.intervals import ColumnTests
    from neve.autopilot.estimate.plain import Plain

FILES_AT_ONCE = 4096  # so that thousands of filters need no gigabytes

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Baseline:
    """The share of the table's bytes that each filter reads, and what there is to read."""

    shares: Floats
    files: int
    bytes: int
    rows: int


def baseline(table: Table, compiled: Compiled, files: TableFiles) -> Baseline:
    """Ask every filter of every file: by its partition and by its bounds, as engines do when they plan."""
    read, total = np.zeros(len(compiled.roots)), 0.0
    for spec in files.specs.values():
        weights = files.weights(spec)
        total += float(weights.sum())
        views = spec_views(table, compiled, spec)
        for first in range(0, len(weights), FILES_AT_ONCE):
            part = slice(first, first + FILES_AT_ONCE)
            some = weights[part]
            read += compiled.matches([[one.chosen(part) for one in view] for view in views], len(some)) @ some
    return Baseline(read / total if total else read, files.files, files.bytes, files.rows)


def spec_views(table: Table, compiled: Compiled, spec: SpecFiles) -> tuple[list[Evidence], list[Evidence]]:
    """What partitions tell of the files of a spec, and what bounds do."""
    told = [_bounds(compiled.columns[name], one) for name, one in spec.columns.items() if name in compiled.columns]
    return _partition_view(table, compiled, spec), list(told)


def _partition_view(table: Table, compiled: Compiled, spec: SpecFiles) -> list[Evidence]:
    view: list[Evidence] = []
    for place, part in enumerate(table.specs()[spec.spec_id].fields):
        name = table.schema().find_column_name(part.source_id)
        tests = compiled.columns.get(name) if name else None
        if tests is None or isinstance(part.transform, (VoidTransform, UnknownTransform)):
            continue
        view.append(parted(tests, part.transform, [values[place] for values in spec.partitions]))
    return view


def parted(tests: ColumnTests, transform: Any, values: Sequence[object]) -> Evidence:
    """What partition values, one for each file, tell of the column that they were made from."""
    is_null = np.array([value is None for value in values], dtype=bool)
    if isinstance(transform, BucketTransform):
        numbers = [NO_BUCKET if value is None else value for value in values]
        return Buckets(tests.column, transform.num_buckets, np.array(numbers, dtype=np.int64))
    spans = {
        value: span_of(transform, tests.kind, value, tests.cuts) for value in dict.fromkeys(values) if value is not None
    }
    everything = (tests.cuts.lowest, tests.cuts.highest)
    ends = np.array([spans.get(value, everything) for value in values], dtype=np.int64).reshape(-1, 2)
    return Bounds(tests.column, ends[:, 0], ends[:, 1], is_null, is_null)


def _bounds(tests: ColumnTests, told: Told) -> Bounds:
    cuts = tests.cuts
    only_nan = np.array(told.only_nan, dtype=bool)
    low, high = _places(tests, told.lows, cuts.lowest), _places(tests, told.highs, cuts.highest)
    return Bounds(
        column=tests.column,
        low=np.where(only_nan, cuts.highest + 1, low),  # what is no number satisfies no comparison
        high=np.where(only_nan, cuts.lowest - 1, high),
        has_null=np.array(told.may_have_null, dtype=bool),
        only_null=np.array(told.only_null, dtype=bool),
    )


def _places(tests: ColumnTests, bounds: Sequence[Plain | None], unknown: int) -> npt.NDArray[np.int64]:
    places = [unknown if bound is None else tests.cuts.place(bound) for bound in bounds]
    return np.array(places, dtype=np.int64)
