"""Comparison of estimates with the truth, if the full data is available."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import InputError
from neve.reservoir.estimate.estimators import RankedValues, quantile_name
from neve.reservoir.estimate.result import MEAN, RATE, SHARE, SUM, TOTAL, Estimates, Line
from neve.reservoir.estimate.sample import Domains, number_column, size_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from neve.reservoir.estimate.result import Estimate

    Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """True number of records of each group, and of each value if a value is requested."""

    domains: Domains
    count: Numbers
    values: Numbers | None

    @classmethod
    def of(cls, table: pa.Table) -> Truth:
        """Build the truth from counts.

        Columns: `group`; `count`, the sum of the records' weights; and, to compare sums, means and quantiles, `value`,
        with a row for each group and distinct value (null: records without one).
        """
        if "group" not in table.column_names:
            raise InputError("the truth has no column 'group'", hint="add it; its values may be null")
        values = number_column(table, "value") if "value" in table.column_names else None
        return cls(
            Domains.of(pc.cast(table.column("group"), pa.string())), size_column(table, "count", zero=True), values
        )

    def groups(self, estimates: Estimates) -> dict[str | None, dict[str, float]]:
        """Return the true numbers of each group."""
        found = self._compute(self.domains, estimates)
        return {
            name: {kind: float(column[place]) for kind, column in found.items()}
            for place, name in enumerate(self.domains.names)
        }

    def overall(self, estimates: Estimates) -> dict[str, float]:
        """Return the true numbers of all records."""
        found = self._compute(Domains.everything(len(self.count)), estimates)
        return {kind: float(column[0]) for kind, column in found.items()}

    def _compute(self, domains: Domains, estimates: Estimates) -> dict[str, Numbers]:
        total = domains.sums(self.count)
        found = {TOTAL: total, SHARE: total / max(float(total.sum()), 1.0)}
        if estimates.seconds:
            found[RATE] = total / estimates.seconds
        if self.values is not None:
            there = ~np.isnan(self.values)
            count = domains.sums(self.count * there)
            found[SUM] = domains.sums(np.where(there, self.count * self.values, 0.0))
            found[MEAN] = np.divide(found[SUM], count, out=np.full(domains.number, np.nan), where=count > 0)
            ranked = RankedValues.of(self.values, self.count, domains.codes, domains.number)
            for quantile in estimates.quantiles:
                found[quantile_name(quantile)] = ranked.at(np.full(domains.number, quantile))
        return found


@dataclass(frozen=True)
class Compared:
    """Estimate with the true number.

    `off` is the error in percent, None if the true number is 0.
    """

    estimate: Estimate
    truth: float

    @property
    def off(self) -> float | None:
        """The error in percent of the truth."""
        return None if not self.truth else (self.estimate.value - self.truth) / abs(self.truth) * 100

    @property
    def inside(self) -> bool:
        """True if the interval contains the true number."""
        return self.estimate.covers(self.truth)

    def as_document(self) -> dict[str, Any]:
        """Return the comparison as a JSON document."""
        truth = {"truth": self.truth, "error_percent": self.off, "inside": self.inside}
        return self.estimate.as_document() | truth


@dataclass(frozen=True)
class Coverage:
    """Number of intervals of one kind that contain the true number."""

    covered: int
    intervals: int


@dataclass(frozen=True)
class Comparison:
    """Estimates with the true numbers.

    `missing` are groups of which no record was kept, with their true totals.
    """

    estimates: Estimates
    overall: Mapping[str, Compared]
    groups: tuple[Mapping[str, Compared], ...]
    missing: Mapping[str | None, float]

    def count_covered(self) -> dict[str, Coverage]:
        """Return, for each kind of estimate, the number of groups whose interval contains the true number.

        A missing group counts with its total: if no record of a group was kept, the sample implies a total from 0 to
        `unseen`.
        """
        found = {}
        for kind in self.overall:
            inside = [one[kind].inside for one in self.groups if kind in one]
            if kind == TOTAL:
                inside += [total <= self.estimates.unseen for total in self.missing.values()]
            found[kind] = Coverage(sum(inside), len(inside))
        return found

    def as_document(self) -> dict[str, Any]:
        """Return the estimates as a JSON document, with the truth in them."""
        document = self.estimates.as_document()
        document["overall"] |= _documents(self.overall)
        for line, compared in zip(document["groups"], self.groups, strict=True):
            line.update(_documents(compared))
        document["covering"] = {kind: vars(one) for kind, one in self.count_covered().items()}
        document["missing"] = [{"group": group, "truth": total} for group, total in self.missing.items()]
        return document


def compare(estimates: Estimates, truth: Truth) -> Comparison:
    """Compare every estimate with the true number, and find the groups that the sample lacks."""
    true = truth.groups(estimates)
    known = {line.group for line in estimates.groups}
    return Comparison(
        estimates=estimates,
        overall=_compare_line(estimates.overall, truth.overall(estimates)),
        groups=tuple(_compare_line(line, true.get(line.group, {TOTAL: 0.0})) for line in estimates.groups),
        missing={group: found[TOTAL] for group, found in true.items() if group not in known},
    )


def _compare_line(line: Line, true: dict[str, float]) -> dict[str, Compared]:
    return {
        kind: Compared(estimate, true[kind])
        for kind, estimate in line.estimates.items()
        if kind in true and not np.isnan(true[kind])
    }


def _documents(compared: Mapping[str, Compared]) -> dict[str, Any]:
    return {kind: one.as_document() for kind, one in compared.items()}
