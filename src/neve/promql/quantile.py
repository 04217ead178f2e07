"""Quantiles of plain values. NaN counts as the smallest value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from neve.promql.series import Bools, Floats, Integers

__all__ = ["quantile_of_columns"]


def quantile_of_columns(values: Floats, mask: Bools, quantiles: Floats) -> Floats:
    """Return the quantile of each column over its rows in the mask, interpolated between the two nearest values.

    Quantiles below 0 give -Inf, above 1 +Inf.

    >>> rows = np.array([[1.0], [2.0], [4.0]])
    >>> float(quantile_of_columns(rows, rows > 0, np.array([0.75]))[0])
    3.0
    """
    counts = mask.sum(axis=0)
    nans = (mask & np.isnan(values)).sum(axis=0)
    ordered = np.sort(np.where(mask, values, np.nan), axis=0)  # NaN and missing values come last
    ranks = np.nan_to_num(quantiles, nan=0.0).clip(0, 1) * (counts - 1)
    lower = np.maximum(np.floor(ranks), 0).astype(np.int64)
    upper = np.clip(lower + 1, 0, np.maximum(counts - 1, 0))
    weights = ranks - np.floor(ranks)
    columns = np.arange(values.shape[1])

    def pick(places: Integers) -> Floats:
        found = ordered[np.clip(places - nans, 0, values.shape[0] - 1), columns]
        return np.where(places < nans, np.nan, found)

    low, high = pick(lower), pick(upper)
    # A weight of 0 must not turn an infinity into NaN twice over: Prometheus multiplies it, too.
    result = low * (1 - weights) + high * weights
    result = np.where(quantiles < 0, -np.inf, np.where(quantiles > 1, np.inf, result))
    empty: Floats = np.where(np.isnan(quantiles) | (counts == 0), np.nan, result)
    return empty
