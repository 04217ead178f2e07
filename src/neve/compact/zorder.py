"""Rows along a z-order curve: near in every one of some columns, not in the first of them alone.

Each column is cut into ranges of as many rows; the bits of a row's range numbers, woven together, are its place on the
curve. Ranges instead of raw bits make skew and text no different from evenly spread numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

BITS = 6
SAMPLE_ROWS = 20_000


def boundaries(values: Sequence[object]) -> list[object]:
    """The values that cut others of their kind into ranges of as many rows.

    >>> boundaries(list(range(128)))[:3]
    [2, 4, 6]
    """
    present = sorted(value for value in values if value is not None)  # type: ignore[type-var]
    ranges = 1 << BITS
    cuts = [present[len(present) * number // ranges] for number in range(1, ranges)] if present else []
    return list(dict.fromkeys(cuts))


def interleave(numbers: Sequence[Column]) -> Column:
    """The bits of range numbers, woven: the highest of each first."""
    woven = F.lit(0).cast("long")
    for bit in range(BITS):
        for position, number in enumerate(numbers):
            place = bit * len(numbers) + (len(numbers) - 1 - position)
            woven = woven.bitwiseOR(F.shiftleft(F.shiftright(number, bit).bitwiseAND(F.lit(1)).cast("long"), place))
    return woven


def place_on_curve(rows: DataFrame, columns: Sequence[str]) -> Column:
    """Where each row lies; looks at a sample of the rows."""
    total = rows.count()
    share = min(1.0, SAMPLE_ROWS / max(1, total))
    sample = rows.select(*columns).sample(share, seed=7).collect()
    return interleave([_range_number(name, boundaries([row[name] for row in sample])) for name in columns])


def _range_number(name: str, cuts: Sequence[object]) -> Column:
    """How many boundaries a value has passed; null comes before all."""
    if not cuts:
        return F.lit(0)
    passed = F.filter(F.array(*map(F.lit, cuts)), lambda cut: cut <= F.col(name))
    return F.when(F.col(name).isNull(), 0).otherwise(F.size(passed))
