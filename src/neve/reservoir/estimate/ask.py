"""Questions to a sample, and all their answers at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import ConfigError, InputError
from neve.reservoir.estimate.domains import Domains
from neve.reservoir.estimate.means import means, sums
from neve.reservoir.estimate.quantiles import quantiles
from neve.reservoir.estimate.result import MEAN, RATE, SHARE, SUM, TOTAL, Column, Estimates, Line
from neve.reservoir.estimate.totals import rates, shares, totals, unseen

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.reservoir.estimate.sample import Sample

    Numbers = npt.NDArray[np.float64]

LEVEL_DEFAULT = 0.95


@dataclass(frozen=True)
class Question:
    """What is wanted beside totals: the sum, the mean and quantiles of a value."""

    of: str | None = None
    quantiles: tuple[float, ...] = ()
    level: float = LEVEL_DEFAULT

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ConfigError(f"level is {self.level:g}, expected a number between 0 and 1", hint="0.95 is usual")
        for quantile in self.quantiles:
            if not 0 < quantile < 1:
                raise ConfigError(
                    f"quantile is {quantile:g}, expected a number between 0 and 1", hint="0.5 is the median"
                )
        if self.quantiles and self.of is None:
            raise ConfigError(
                "quantiles are wanted, but not of what", hint="name the column of values, e.g. --of value"
            )


def estimate(sample: Sample, question: Question = Question()) -> Estimates:  # noqa: B008  frozen: never changed
    """Everything that is asked, for all records and for each group, those with the most records first."""
    if not sample.items:
        raise InputError("the sample is empty: there is nothing to estimate from", hint="see --since and --until")
    values = None if question.of is None else sample.value(question.of)
    (overall,) = _lines(sample, values, Domains.everything(sample.items), question)
    lines = _lines(sample, values, sample.domains, question)
    lines.sort(key=lambda line: (-line.estimates[TOTAL].value, line.group is None, line.group))
    return Estimates(
        level=question.level,
        of=question.of,
        items=sample.items,
        windows=0 if sample.windows is None else len(sample.windows.starts),
        seconds=None if sample.windows is None else sample.windows.seconds,
        overall=overall,
        groups=tuple(lines),
        quantiles=question.quantiles,
        unseen=0.0 if sample.nested else unseen(sample, question.level),
        remarks=tuple(_remarks(sample, overall)),
    )


def _lines(sample: Sample, values: Numbers | None, domains: Domains, question: Question) -> list[Line]:
    columns = {kind: column.estimates() for kind, column in _columns(sample, values, domains, question).items()}
    items = domains.counts().tolist()
    lacking = [0.0] * domains.number if values is None else domains.sums(np.isnan(values)).tolist()
    return [
        Line(name, int(items[place]), int(lacking[place]), {kind: column[place] for kind, column in columns.items()})
        for place, name in enumerate(domains.names)
    ]


def _columns(sample: Sample, values: Numbers | None, domains: Domains, question: Question) -> dict[str, Column]:
    columns = {TOTAL: totals(sample, domains, question.level)}
    if sample.windows is not None:
        columns[RATE] = rates(columns[TOTAL], sample.windows.seconds)
    columns[SHARE] = shares(sample, domains, question.level)
    if values is not None:
        columns[SUM] = sums(sample, values, domains, question.level)
        columns[MEAN] = means(sample, values, domains, question.level)
        columns |= quantiles(sample, values, domains, question.quantiles, question.level)
    return columns


def _remarks(sample: Sample, overall: Line) -> list[str]:
    remarks = []
    if sample.already_sampled:
        remarks.append(
            "some items came in with a weight other than 1: the error of the sampling before is not in the intervals"
        )
    if overall.without_value:
        remarks.append(
            f"{overall.without_value:,} of {overall.items:,} kept items have no value (none, NaN or infinite): sums, "
            "means and quantiles are of the others"
        )
    return remarks
