"""What goes into rows: one item for each point, or for each row of the level below, before those of a row are merged.

Numbers that are not known are NaN. `row` is the row of the table that an item was made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from neve.rollup.explicit import Explicit
    from neve.rollup.exponential import Exponential
    from neve.rollup.registers import Registers

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Items:
    """Items of any kind; those of one rolled series and window become one row."""

    row: Ints
    name: npt.NDArray[np.uint64]
    window: Ints
    points: Ints
    count: Ints
    total: Floats
    least: Floats
    most: Floats
    first: Floats
    last: Floats
    first_time: Ints
    last_time: Ints
    increase: Floats
    exponential: Exponential
    explicit: Explicit
    registers: Registers
