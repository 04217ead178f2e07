"""Rows of answers joined run by run: any of them, or all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Answers = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]


def joined(answers: Answers, starts: Rows, *, every: bool) -> Answers:
    """A row for each run that begins at one of `starts`: whether all of its rows hold, or any.

    >>> joined(np.array([[True], [False], [True]]), np.array([0, 2]), every=True).tolist()
    [[False], [True]]
    """
    if len(starts) == len(answers):
        return answers
    join = np.logical_and if every else np.logical_or
    whole = np.empty((len(starts), answers.shape[1]), dtype=bool)
    # numpy's own `reduceat` goes down columns, and takes a hundred times as long.
    for row, (start, end) in enumerate(zip(starts, np.append(starts[1:], len(answers)), strict=True)):
        join.reduce(answers[start:end], axis=0, out=whole[row])
    return whole
