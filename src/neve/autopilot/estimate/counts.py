"""How many rows lie where among the literals of queries: counted of every row that is read, though few are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neve.autopilot.estimate.plain import is_numeric, numbers, ranked_values

if TYPE_CHECKING:
    from neve.autopilot.estimate.cuts import Places
    from neve.autopilot.estimate.intervals import ColumnTests

Floats = npt.NDArray[np.float64]


def number_of_places(tests: ColumnTests) -> int:
    """The places of a column's values, and one more for rows that have none."""
    return tests.cuts.highest + 2


def places_of(tests: ColumnTests, values: pa.Array) -> Places:
    """Where the values of rows lie; null, and what is no number, lies after all."""
    known = ~values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    places = np.full(len(values), tests.cuts.highest + 1, dtype=np.int64)
    held = values if known.all() else values.filter(pa.array(known))
    if is_numeric(tests.kind):
        places[known] = tests.cuts.places(numbers(tests.kind, held))
    else:
        distinct, ranks = ranked_values(tests.kind, held)
        places[known] = tests.cuts.places(distinct)[ranks]
    return places


def counted(tests: ColumnTests, values: pa.Array, weights: Floats | None = None) -> Floats:
    """How many rows lie at each place."""
    counts = np.bincount(places_of(tests, values), weights, minlength=number_of_places(tests))
    return counts.astype(np.float64)
