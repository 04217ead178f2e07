"""Budget of one evaluation: memory and time that an expression may use, whoever wrote it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.errors import LimitExceeded

if TYPE_CHECKING:
    from neve.promql.histograms.native import Histogram

__all__ = ["Budget", "check_deadline", "weigh_histogram"]

_HISTOGRAM_SAMPLES = 30  # a histogram without buckets needs the memory of so many floats


def weigh_histogram(one: Histogram) -> int:
    """Return the number of float samples that need as much memory as a native histogram."""
    return _HISTOGRAM_SAMPLES + len(one.positive) + len(one.negative) + len(one.bounds)


def check_deadline(deadline: float | None) -> None:
    """Raise `LimitExceeded` after a deadline of the monotonic clock."""
    if deadline is not None and time.monotonic() > deadline:
        raise LimitExceeded("query timed out in expression evaluation", limit="seconds")


@dataclass(slots=True)
class Budget:
    """Samples, labels, visits and time that are left. Each charge raises `LimitExceeded` if there is too little."""

    samples: int  # and cells of matrices
    label_chars: int
    points: int  # of the result
    visits: int  # of samples by functions that look at each sample of each window
    deadline: float | None  # of the monotonic clock

    def charge(self, count: int) -> None:
        """Charge samples or cells."""
        self.samples -= count
        if self.samples < 0:
            message = "query processing would load too many samples into memory in query execution"
            raise LimitExceeded(message, limit="max_samples")

    def charge_histogram(self, one: Histogram) -> None:
        """Charge a new native histogram."""
        self.charge(weigh_histogram(one))
        check_deadline(self.deadline)

    def charge_labels(self, chars: int) -> None:
        """Charge characters of labels."""
        self.label_chars -= chars
        if self.label_chars < 0:
            raise LimitExceeded("the labels of the query are too long in total", limit="max_label_chars")

    def charge_points(self, count: int) -> None:
        """Charge points of the result."""
        self.points -= count
        if self.points < 0:
            message = "the result has too many points: choose a longer step, or aggregate the series"
            raise LimitExceeded(message, limit="max_points")

    def visit(self, count: int = 1) -> None:
        """Charge visits, and check the time. Loops call it once a round."""
        self.visits -= count
        if self.visits < 0:
            message = "query processing would visit too many samples: choose a shorter range or a longer step"
            raise LimitExceeded(message, limit="max_visits")
        check_deadline(self.deadline)
