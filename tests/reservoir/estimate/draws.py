"""Many draws from one population at once, each a group of one sample, so that one estimate judges them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

NUMBER, KEPT = 2000, 100
CHUNK = 500  # draws at once, so that memory stays small


@dataclass(frozen=True)
class Draws:
    """Which items of a population each draw kept (a row each), and the draw's threshold."""

    kept: npt.NDArray[np.int64]
    tau: Numbers
    weights: Numbers
    method: str

    def table(self, part: npt.NDArray[np.bool_] | None = None, **values: Numbers) -> pa.Table:
        """One sample with a group for each draw; `part`: what is not of it goes to another group of the same draw."""
        draws, size = self.kept.shape
        flat, tau = self.kept.ravel(), np.repeat(self.tau, size)
        names = np.repeat(np.arange(draws), size)
        columns = {
            "group": pa.array(names).cast(pa.string()),
            "weight": self.weights[flat],
            "adjusted": np.maximum(self.weights[flat], tau),
            "tau": tau,
            "method": pa.array([self.method]).take(pa.array(np.zeros(len(flat), dtype=np.int64))),
            **{name: value[flat] for name, value in values.items()},
        }
        if part is not None:
            columns["by"] = pa.array(np.where(part[flat], names, -1 - names)).cast(pa.string())
        return pa.table(columns)


def priority(weights: Numbers, draws: int, seed: int, kept: int = KEPT) -> Draws:
    """Priority sampling: the largest of w / u, and the next one as the threshold."""
    rng = np.random.default_rng(seed)
    chosen, tau = np.empty((draws, kept), dtype=np.int64), np.empty(draws)
    for start in range(0, draws, CHUNK):
        mine = slice(start, min(start + CHUNK, draws))
        ranks = weights / (1.0 - rng.random((mine.stop - start, len(weights))))
        order = np.argpartition(-ranks, kept, axis=1)
        chosen[mine] = order[:, :kept]
        tau[mine] = np.take_along_axis(ranks, order[:, kept : kept + 1], axis=1)[:, 0]
    return Draws(chosen, tau, weights, "priority")


def exact_total(weights: Numbers, draws: int, seed: int, kept: int = KEPT) -> Draws:
    """VarOpt's threshold, then systematic selection along the chances in a random order."""
    rng = np.random.default_rng(seed)
    heavy = np.sort(weights)[::-1]
    taus = (weights.sum() - np.concatenate(([0.0], np.cumsum(heavy[: kept - 1])))) / (kept - np.arange(kept))
    tau = float(taus[np.argmax(heavy[:kept] <= taus)])
    order = np.argsort(rng.random((draws, len(weights))), axis=1)
    steps = np.cumsum(np.minimum(1.0, weights / tau)[order], axis=1)
    steps[:, -1] = kept
    marks = np.floor(steps + rng.random((draws, 1)))
    taken = np.diff(marks, axis=1, prepend=0.0) > 0
    return Draws(order[taken].reshape(draws, kept), np.full(draws, tau), weights, "exact_total")


def heavy_tails(seed: int) -> Numbers:
    """Weights of which a few are a large part of all."""
    return np.random.default_rng(seed).pareto(1.2, NUMBER) + 1.0
