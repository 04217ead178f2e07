"""Windows of the buckets of classic histograms, from rollups: a series for each bound, as PromQL has them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from neve.lexical.literals import format_float
from neve.promql.labels import Labels, set_label
from neve.promql.storage.point_rows import NANOS
from neve.promql.storage.rolled_windows import NUMBERS, RolledRows, Windowed, read_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.promql.series import Floats, Integers

__all__ = ["read_buckets", "read_rolled"]

MOST_CELLS = 10_000_000  # windows of all buckets; points are read instead of more


def read_rolled(kind: str, rows: RolledRows, labels: list[Labels]) -> tuple[Windowed, list[Labels]] | None:
    """Return the windows of series or of their buckets with the labels of each, or `None` if points are needed."""
    if kind == "histogram":
        return read_buckets(rows, labels)
    windows = read_windows(rows)
    return None if windows is None else (windows, labels)


def read_buckets(rows: RolledRows, labels: Sequence[Labels]) -> tuple[Windowed, list[Labels]] | None:
    """Return the windows of each bucket with the observations up to its bound, and the labels of the buckets.

    It is `None` if the bounds of a series change, which the rollup can't tell from a merge, or if there are too many.
    """
    order = np.argsort(rows.owner, kind="stable")
    owner = rows.owner[order]
    columns = {name: rows.columns.field(name).take(order) for name in ("bounds", "buckets", "points")}
    times = [rows.columns.field(name).to_numpy()[order] // NANOS for name in ("first_ns", "last_ns")]
    starts_ms, points = rows.starts_us[order] // 1000, columns["points"].to_numpy().astype(np.float64)
    parts: list[tuple[Integers, Integers, Floats]] = []  # the bucket, the row and the value of each window
    named: list[Labels] = []
    cells = 0
    for low, high in pairwise(np.searchsorted(owner, np.arange(len(labels) + 1)).tolist()):
        if low == high:
            continue
        bounds, counts = (columns[name].slice(low, high - low) for name in ("bounds", "buckets"))
        edges = bounds[0].as_py()
        width = len(edges) + 1
        cells += width * (high - low)
        flat = bounds.flatten().to_numpy()
        if (
            cells > MOST_CELLS
            or len(flat) != len(edges) * (high - low)
            or len(counts.flatten()) != width * (high - low)
        ):
            return None
        if (flat.reshape(high - low, len(edges)) != np.array(edges)).any():
            return None
        running = np.cumsum(counts.flatten().to_numpy().reshape(high - low, width), axis=1).astype(np.float64)
        numbers = np.repeat(np.arange(len(named), len(named) + width), high - low)
        parts.append((numbers, np.tile(np.arange(low, high), width), running.T.ravel()))
        named += [set_label(labels[owner[low]], "le", format_float(edge)) for edge in (*edges, math.inf)]
    if not parts:
        return None
    bucket, row, total = (np.concatenate([part[place] for part in parts]) for place in range(3))
    unknown = np.zeros(len(total))
    values = dict.fromkeys(NUMBERS, unknown) | {"total": total, "count": points[row]}
    return Windowed(bucket, starts_ms[row], times[0][row], times[1][row], values), named
