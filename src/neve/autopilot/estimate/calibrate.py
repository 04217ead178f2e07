"""Weights of a sample, corrected until it has as many rows on each side of every literal as the table has.

A sample of 200,000 rows puts a literal a tenth of a percent of the rows beside its place. That is little, but where the
boundary of a z-order lies in between, a whole row of files is taken for read or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.autopilot.estimate.cuts import Places

Floats = npt.NDArray[np.float64]
ROUNDS = 10  # of going through all columns; each moves the others a little
LEAST_ROWS = 30  # sampled, in a cell: of fewer a weight would be more chance than knowledge


@dataclass(frozen=True)
class Margin:
    """The cell of each sampled row in one column, and the rows of the table in each cell."""

    cells: npt.NDArray[np.int64]
    masses: Floats

    @classmethod
    def of(cls, places: Places, masses: Floats, least: int = LEAST_ROWS) -> Margin:
        """Neighbouring places in one cell, as many as it takes to have enough sampled rows in it."""
        sampled = np.bincount(places, minlength=len(masses))
        cell_of, cell, held = np.zeros(len(masses), dtype=np.int64), 0, 0
        for place, number in enumerate(sampled):
            if held >= least and sampled[place:].sum() >= least:
                cell, held = cell + 1, 0
            cell_of[place] = cell
            held += number
        return cls(cell_of[places], np.bincount(cell_of, masses).astype(np.float64))


def calibrated(weights: Floats, margins: Sequence[Margin]) -> Floats:
    """The weights that are nearest to these and agree with all margins."""
    total = weights.sum()
    for _round in range(ROUNDS):
        for margin in margins:
            held = np.bincount(margin.cells, weights, minlength=len(margin.masses))
            masses = margin.masses * (total / margin.masses.sum())
            weights = weights * np.divide(masses, held, out=np.ones_like(masses), where=held > 0)[margin.cells]
    return weights
