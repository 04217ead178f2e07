"""What a sample must be like before anything is estimated from it; what is not so is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

# Adjusted counts may have been written as text and read again.
CLOSE = 1e-6


def numbers(table: pa.Table, name: str) -> Numbers:
    """A column of doubles; NaN where there is none, or one that can't be added up."""
    found: Numbers = pc.cast(table.column(name), pa.float64(), safe=False).to_numpy().astype(np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def sizes(table: pa.Table, name: str, *, zero: bool = False) -> Numbers:
    """A column of finite doubles above zero, or from zero on."""
    if name not in table.column_names:
        raise InputError(
            f"a sample without the column {name!r}", hint=f"it has these: {', '.join(table.column_names) or 'none'}"
        )
    try:
        found: Numbers = pc.cast(table.column(name), pa.float64()).to_numpy().astype(np.float64)
    except pa.ArrowException as error:
        raise InputError(f"the column {name!r} of a sample holds no numbers: {error}") from error
    bad = ~(np.isfinite(found) & ((found >= 0) if zero else (found > 0)))
    if bad.any():
        place = int(np.argmax(bad))
        value = table.column(name)[place].as_py()
        raise InputError(
            f"{int(bad.sum()):,} of {len(found):,} kept items have a bad {name}, the first in row {place:,}: {value}",
            hint=f"expected a finite number {'of 0 or more' if zero else 'above 0'}",
        )
    return found


def check_design(weight: Numbers, adjusted: Numbers, tau: Numbers) -> None:
    """Refuse items whose adjusted weight is not what their threshold makes of them."""
    below = adjusted < weight * (1 - CLOSE)
    if below.any():
        place = int(np.argmax(below))
        raise InputError(
            f"{int(below.sum()):,} of {len(weight):,} kept items have an adjusted weight below their own, the first in "
            f"row {place:,}: adjusted {adjusted[place]:g} < weight {weight[place]:g}",
            hint="an item stands for itself at least",
        )
    expected = np.maximum(weight, tau)
    other = np.abs(adjusted - expected) > CLOSE * expected
    if other.any():
        place = int(np.argmax(other))
        raise InputError(
            f"{int(other.sum()):,} of {len(weight):,} kept items have an adjusted weight that is not the larger of "
            f"weight and tau, the first in row {place:,}: adjusted {adjusted[place]:g}, weight {weight[place]:g}, "
            f"tau {tau[place]:g}",
            hint="weight, tau and adjusted must come from one run of the sampler",
        )
