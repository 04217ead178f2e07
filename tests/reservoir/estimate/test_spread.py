"""The error that an estimate tells is the one that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from neve.reservoir.estimate.estimators import estimate_sums, estimate_totals
from neve.reservoir.estimate.intervals import measure_spread
from neve.reservoir.estimate.sample import Domains, Sample
from tests.reservoir.estimate.draws import NUMBER, Draws, exact_total, heavy_tails, priority

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from neve.reservoir.estimate.result import Column

    Numbers = npt.NDArray[np.float64]

pytestmark = pytest.mark.long

# 12,000 draws tell a variance to within 1.3 %, so that 5 % is far outside of what luck does.
POPULATIONS, DRAWS = range(8), 1500
METHODS = {"priority": priority, "exact_total": exact_total}


def squares(column: Column, mine: npt.NDArray[np.bool_], truth: float) -> tuple[float, float]:
    """The mean square of the errors that are told and of those that are had."""
    told, had = column.error[mine] / truth, column.value[mine] / truth - 1
    return float(np.mean(told**2)), float(np.mean(had**2))


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_the_variance_is_the_one_that_estimates_have(method: str) -> None:
    """For subsets, their sums of a value and, by priority, whole totals: 0.95 to 1.05 of what many draws show."""
    draw: Callable[[Numbers, int, int], Draws] = METHODS[method]
    found: dict[str, list[tuple[float, float]]] = {"subset": [], "sum": [], "total": []}
    for population in POPULATIONS:
        rng = np.random.default_rng(400 + population)
        weights, part, value = heavy_tails(population), rng.random(NUMBER) < 0.3, np.exp(rng.normal(3.0, 0.8, NUMBER))
        draws = draw(weights, DRAWS, 500 + population)
        sample = Sample.of(draws.table(part, value=value))
        mine = np.array([name is not None and not name.startswith("-") for name in sample.domains.names])
        inside = float(weights[part].sum())
        found["subset"].append(squares(estimate_totals(sample, sample.domains, 0.95), mine, inside))
        summed = float((weights * value)[part].sum())
        found["sum"].append(squares(estimate_sums(sample, sample.values["value"], sample.domains, 0.95), mine, summed))
        whole = Sample.of(draws.table())
        everyone = np.ones(whole.domains.number, dtype=np.bool_)
        found["total"].append(squares(estimate_totals(whole, whole.domains, 0.95), everyone, float(weights.sum())))
    for kind, pairs in found.items():
        told, had = np.sum(pairs, axis=0)
        if (method, kind) == ("exact_total", "total"):
            assert told == 0.0
            assert had < 1e-20
        else:
            assert 0.95 < told / had < 1.05, kind


def sample_of(method: str, weights: list[float], tau: float, group: list[str]) -> Sample:
    """A sample of one threshold, cut by another column than the sampler's."""
    adjusted = [max(weight, tau) for weight in weights]
    columns = {"weight": weights, "adjusted": adjusted, "tau": [tau] * len(weights), "method": [method] * len(weights)}
    return Sample.of(pa.table({**columns, "by": group}))


def test_priority_is_the_formula_of_the_paper() -> None:
    """An item adds tau * max(0, tau - w), times the square of its value."""
    sample = sample_of("priority", [1.0, 2.0, 9.0], 4.0, ["a", "a", "a"])
    value = np.array([1.0, 10.0, 100.0])
    assert measure_spread(sample, sample.adjusted, sample.domains).variance.tolist() == [4.0 * 3.0 + 4.0 * 2.0]
    assert measure_spread(sample, sample.adjusted * value, sample.domains).variance.tolist() == [
        4.0 * 3.0 + 100 * 4.0 * 2.0
    ]


def test_exact_totals_are_never_above_the_sum_over_items() -> None:
    """What the items of a stratum show is at most the bound without covariances, but for the factor n / (n - 1)."""
    rng = np.random.default_rng(8)
    for _ in range(50):
        weights, group = rng.uniform(0.5, 6.0, 12).tolist(), rng.choice(["a", "b", "c"], 12).tolist()
        exact, free = (sample_of(method, weights, 4.0, group) for method in ("exact_total", "priority"))
        bound = measure_spread(free, free.adjusted, free.domains).variance
        light = int((exact.doubt > 0).sum())
        assert np.all(
            measure_spread(exact, exact.adjusted, exact.domains).variance <= bound * light / (light - 1) + 1e-9
        )


def test_one_light_item_alone_keeps_the_bound() -> None:
    """It has nothing to differ from."""
    sample = sample_of("exact_total", [1.0, 9.0], 4.0, ["a", "b"])
    assert measure_spread(sample, sample.adjusted, sample.domains).variance.tolist() == [12.0, 0.0]
    assert measure_spread(sample, sample.adjusted, Domains.everything(2)).variance.tolist() == [12.0]
    assert estimate_totals(sample, Domains.everything(2), 0.95).error.tolist() == [0.0]
