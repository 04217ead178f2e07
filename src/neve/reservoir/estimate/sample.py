"""A weighted sample as arrays: what was kept, what each item stands for, and by which threshold it was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import InputError
from neve.reservoir.estimate.checks import check_design, numbers, sizes
from neve.reservoir.estimate.domains import Domains
from neve.reservoir.estimate.windows import Windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]
    Codes = npt.NDArray[np.int64]

PRIORITY = "priority"
EXACT_TOTAL = "exact_total"
DESIGN = ("weight", "tau", "method")
OWN = frozenset(("window_start", "window_end", "group", "by", "part", "id", "adjusted", *DESIGN))


@dataclass(frozen=True)
class Sample:
    """Kept items, one place in every array for each.

    `domains` are what estimates are wanted for: the groups of the sampler, or those of a column `by`, which may cut
    across them. `strata` number the window and the group that an item was drawn from.
    """

    weight: Numbers
    adjusted: Numbers
    tau: Numbers
    exact: npt.NDArray[np.bool_]
    strata: Codes
    domains: Domains
    nested: bool
    windows: Windows | None
    values: Mapping[str, Numbers]

    @classmethod
    def of(cls, table: pa.Table) -> Sample:
        """The sample that a table holds, a row for each kept item.

        Columns: `adjusted`; `weight`, `tau` and `method` (priority or exact_total), or none of these three; `group`,
        `window_start` and `window_end` where the sampler had them; `by`, to estimate for other groups than it drew
        from. Every other column of numbers is a value that totals, means and quantiles can be asked of.

        Without a threshold the sample is a foreign one, of which only adjusted counts are known: each item is then
        taken as one record that was kept with probability 1 / adjusted, independently of the others, which is weight 1
        and tau = adjusted.
        """
        adjusted, groups = sizes(table, "adjusted"), Domains.of(_names(table, "group"))
        weight, tau, exact = _design(table, adjusted)
        check_design(weight, adjusted, tau)
        windows = Windows.of(table)
        places = groups.codes if windows is None else groups.codes * len(windows.starts) + windows.codes
        return cls(
            weight=weight,
            adjusted=adjusted,
            tau=tau,
            exact=exact,
            strata=np.unique(places, return_inverse=True)[1].astype(np.int64),
            domains=Domains.of(_names(table, "by")) if "by" in table.column_names else groups,
            nested="by" not in table.column_names,
            windows=windows,
            values={
                name: numbers(table, name) for name in table.column_names if name not in OWN and _is_value(table, name)
            },
        )

    @property
    def items(self) -> int:
        """How many were kept."""
        return len(self.adjusted)

    @cached_property
    def doubt(self) -> Numbers:
        """The chance that an item had of not being kept: 0 for those that are heavier than the threshold."""
        light = self.tau > self.weight
        return 1.0 - np.divide(self.weight, self.tau, out=np.ones(self.items), where=light)

    @property
    def already_sampled(self) -> bool:
        """Whether the input stood for more records than it had: the error of that earlier sampling is not seen here."""
        return bool(np.any(self.weight != 1.0))

    def value(self, name: str) -> Numbers:
        """A column of values; NaN where an item has none."""
        try:
            return self.values[name]
        except KeyError:
            known = ", ".join(sorted(self.values)) or "none"
            raise InputError(
                f"the sample has no column of numbers named {name!r}", hint=f"it has these: {known}"
            ) from None


def _names(table: pa.Table, column: str) -> pa.Array:
    if column not in table.column_names:
        return pa.nulls(table.num_rows, pa.string())
    return pc.cast(table.column(column), pa.string())


def _design(table: pa.Table, adjusted: Numbers) -> tuple[Numbers, Numbers, npt.NDArray[np.bool_]]:
    """Weights, thresholds and which items are of an exact total."""
    missing = [name for name in DESIGN if name not in table.column_names]
    if len(missing) == len(DESIGN):
        return np.ones(len(adjusted)), adjusted, np.zeros(len(adjusted), dtype=np.bool_)
    if missing:
        raise InputError(
            f"a sample without the column {missing[0]!r}",
            hint="give weight, tau and method, or none of them for a sample of which only adjusted counts are known",
        )
    methods = pc.cast(table.column("method"), pa.string())
    strange = [one for one in pc.unique(methods).to_pylist() if one not in (PRIORITY, EXACT_TOTAL)]
    if strange:
        raise InputError(f"a sample by the method {strange[0]!r}, expected {PRIORITY} or {EXACT_TOTAL}")
    exact = pc.equal(methods, EXACT_TOTAL).to_numpy()
    return sizes(table, "weight"), sizes(table, "tau", zero=True), exact


def _is_value(table: pa.Table, name: str) -> bool:
    kind = table.schema.field(name).type
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind))
