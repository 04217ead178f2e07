"""Weighted sample as arrays: kept items, their adjusted weights and thresholds, their windows and domains.

A sample that is not consistent is rejected, with the name of the column. Domains are what estimates are made for:
groups, or everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]
    Codes = npt.NDArray[np.int64]

# Adjusted counts may have been written as text and read again.
CLOSE = 1e-6


def number_column(table: pa.Table, name: str) -> Numbers:
    """Return a column of doubles, with NaN for missing numbers and those that can't be added up."""
    found: Numbers = pc.cast(table.column(name), pa.float64(), safe=False).to_numpy().astype(np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def size_column(table: pa.Table, name: str, *, zero: bool = False) -> Numbers:
    """Return a column of finite doubles above zero, or from zero on."""
    if name not in table.column_names:
        raise InputError(
            f"the sample has no column {name!r}", hint=f"its columns: {', '.join(table.column_names) or 'none'}"
        )
    try:
        found: Numbers = pc.cast(table.column(name), pa.float64()).to_numpy().astype(np.float64)
    except pa.ArrowException as error:
        raise InputError(f"the column {name!r} of the sample has no numbers: {error}") from error
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
    """Reject items whose adjusted weight does not follow from their threshold."""
    below = adjusted < weight * (1 - CLOSE)
    if below.any():
        place = int(np.argmax(below))
        raise InputError(
            f"{int(below.sum()):,} of {len(weight):,} kept items have an adjusted weight below their own, the first in "
            f"row {place:,}: adjusted {adjusted[place]:g} < weight {weight[place]:g}",
            hint="an adjusted weight is at least the weight of its item",
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


@dataclass(frozen=True)
class Domains:
    """Domain number of each item, and the names of the domains by number; None: items without a name."""

    codes: npt.NDArray[np.int64]
    names: tuple[str | None, ...]

    @classmethod
    def of(cls, names: pa.ChunkedArray | pa.Array) -> Domains:
        """Return a domain for each name."""
        whole = names.combine_chunks() if hasattr(names, "combine_chunks") else names
        coded = pc.dictionary_encode(whole, null_encoding="encode")
        return cls(coded.indices.to_numpy().astype(np.int64), tuple(coded.dictionary.to_pylist()))

    @classmethod
    def everything(cls, items: int) -> Domains:
        """Return one domain with all items."""
        return cls(np.zeros(items, dtype=np.int64), (None,))

    @property
    def number(self) -> int:
        """The number of domains."""
        return len(self.names)

    def sums(self, items: npt.NDArray[np.float64] | npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """Return the sum over each domain."""
        return sums_by(self.codes, items, self.number)

    def counts(self) -> npt.NDArray[np.float64]:
        """Return the number of items of each domain."""
        return sums_by(self.codes, np.ones(len(self.codes)), self.number)


def sums_by(
    codes: npt.NDArray[np.int64], items: npt.NDArray[np.float64] | npt.NDArray[np.bool_], number: int
) -> npt.NDArray[np.float64]:
    """Return the sum of the items of each code below `number`."""
    return np.bincount(codes, items, number).astype(np.float64)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000_000  # in nanoseconds


@dataclass(frozen=True)
class Windows:
    """Window number of each item, and the starts and ends of windows in nanoseconds, in the order of time.

    A window without kept records leaves no trace in a sample. A rate is therefore one over the windows that had
    records.
    """

    codes: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, table: pa.Table) -> Windows | None:
        """Return the windows of a table's rows, or None if the table has no window columns."""
        there = [name for name in ("window_start", "window_end") if name in table.column_names]
        if not there:
            return None
        if len(there) == 1:
            raise InputError(f"the sample has only the column {there[0]!r}, expected window_start and window_end")
        begin, end = (_nanoseconds(table, name) for name in there)
        starts, first, codes = np.unique(begin, return_index=True, return_inverse=True)
        found = cls(codes.astype(np.int64), starts, end[first])
        found._check(begin, end)
        return found

    @property
    def seconds(self) -> float:
        """The length of all windows together."""
        return float(np.sum((self.ends - self.starts) / SECOND))

    @property
    def period(self) -> tuple[datetime, datetime]:
        """The start of the first window and the end of the last, in UTC."""
        begin, end = (int(edge) // 1000 for edge in (self.starts[0], self.ends[-1]))
        return EPOCH + timedelta(microseconds=begin), EPOCH + timedelta(microseconds=end)

    def _check(self, begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> None:
        if np.any(end <= begin):
            place = int(np.argmax(end <= begin))
            raise InputError(f"the window of row {place:,} ends at {_time(end[place])}, before {_time(begin[place])}")
        over = np.flatnonzero((end != self.ends[self.codes]) | (end > _next(self.starts)[self.codes]))
        if len(over):
            place = int(over[0])
            raise InputError(
                f"the window from {_time(begin[place])} to {_time(end[place])} overlaps with another",
                hint="records in both would count twice; select windows of one run",
            )


def _next(starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.append(starts[1:], np.iinfo(np.int64).max)


def _nanoseconds(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    column = table.column(name)
    if column.null_count:
        raise InputError(f"{column.null_count:,} of {table.num_rows:,} kept items have no {name}")
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = pc.cast(column, pa.timestamp("ns", kind.tz))
    elif not pa.types.is_integer(kind):
        raise InputError(f"the column {name!r} of the sample is {kind}, expected a timestamp or int64 nanoseconds")
    found: npt.NDArray[np.int64] = pc.cast(column, pa.int64()).to_numpy()
    return found


def _time(nanoseconds: np.int64) -> str:
    return f"{np.datetime64(int(nanoseconds) // 1000, 'us')}Z"


PRIORITY = "priority"
EXACT_TOTAL = "exact_total"
DESIGN = ("weight", "tau", "method")
OWN = frozenset(("window_start", "window_end", "group", "by", "part", "id", "adjusted", *DESIGN))


@dataclass(frozen=True)
class Sample:
    """Kept items, as arrays with one element for each.

    `domains` are the groups to estimate for: those of the sampler, or those of a column `by`, which may cut across
    them. `strata` number the window and the group that an item was drawn from.
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
        """Build the sample from a table with a row for each kept item.

        Columns: `adjusted`; `weight`, `tau` and `method` (priority or exact_total), or none of these three; `group`,
        `window_start` and `window_end` if the sampler had them; `by`, to estimate for other groups than it drew from.
        Every other column of numbers is a value for which sums, means and quantiles can be estimated.

        Without a threshold the sample is a foreign one, of which only adjusted counts are known. Each item is then
        treated as one record that was kept with probability 1 / adjusted, independently of the others, which is weight
        1 and tau = adjusted.
        """
        adjusted, groups = size_column(table, "adjusted"), Domains.of(_names(table, "group"))
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
                name: number_column(table, name)
                for name in table.column_names
                if name not in OWN and _is_value(table, name)
            },
        )

    @property
    def items(self) -> int:
        """The number of kept items."""
        return len(self.adjusted)

    @cached_property
    def doubt(self) -> Numbers:
        """The probability that an item was not kept: 0 for items that are heavier than the threshold."""
        light = self.tau > self.weight
        return 1.0 - np.divide(self.weight, self.tau, out=np.ones(self.items), where=light)

    @property
    def already_sampled(self) -> bool:
        """True if the input was a sample itself.

        The error of that earlier sampling is not visible here.
        """
        return bool(np.any(self.weight != 1.0))

    def value(self, name: str) -> Numbers:
        """Return a column of values, with NaN for items without one."""
        try:
            return self.values[name]
        except KeyError:
            known = ", ".join(sorted(self.values)) or "none"
            raise InputError(
                f"the sample has no numeric column {name!r}", hint=f"its numeric columns: {known}"
            ) from None


def _names(table: pa.Table, column: str) -> pa.Array:
    if column not in table.column_names:
        return pa.nulls(table.num_rows, pa.string())
    return pc.cast(table.column(column), pa.string())


def _design(table: pa.Table, adjusted: Numbers) -> tuple[Numbers, Numbers, npt.NDArray[np.bool_]]:
    """Return weights, thresholds, and a mask of the items that were sampled by exact total."""
    missing = [name for name in DESIGN if name not in table.column_names]
    if len(missing) == len(DESIGN):
        return np.ones(len(adjusted)), adjusted, np.zeros(len(adjusted), dtype=np.bool_)
    if missing:
        raise InputError(
            f"the sample has no column {missing[0]!r}",
            hint="give weight, tau and method, or none of them for a sample of which only adjusted counts are known",
        )
    methods = pc.cast(table.column("method"), pa.string())
    strange = [one for one in pc.unique(methods).to_pylist() if one not in (PRIORITY, EXACT_TOTAL)]
    if strange:
        raise InputError(f"the sampling method is {strange[0]!r}, expected {PRIORITY} or {EXACT_TOTAL}")
    exact = pc.equal(methods, EXACT_TOTAL).to_numpy()
    return size_column(table, "weight"), size_column(table, "tau", zero=True), exact


def _is_value(table: pa.Table, name: str) -> bool:
    kind = table.schema.field(name).type
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind))
