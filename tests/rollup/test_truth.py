"""What really happened, told in two ways: the increases are the same, and never more than that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neve.model.levels import LEVELS
from neve.rollup.config import RollupConfig
from tests.rollup.compare import plain, rolled
from tests.rollup.test_job import START, point

CONFIG = RollupConfig()
BEGAN = int(START.timestamp()) * 10**9
LONG_AGO = BEGAN - 86_400 * 10**9


def told(second: int, value: int, *, series: str = "a", metric: str = "requests", start: int = BEGAN) -> dict[str, Any]:
    """A cumulative point."""
    kind = {"metric_type": "sum", "is_monotonic": True, "aggregation_temporality": 2, "value_int": value}
    one = point(second, float(value), name=metric, number=hash((series, metric)) % 1000)
    return {**one, **kind, "attributes": [("s", series)], "start_time_unix_nano": start}


def increases(points: list[dict[str, Any]]) -> dict[str, float]:
    """By the attribute that tells series apart."""
    found: dict[str, float] = {}
    for row in plain(rolled(points, CONFIG, LEVELS[0])).values():
        name = dict(row["attributes"])["s"]
        found[name] = found.get(name, 0.0) + (row["increase"] or 0.0)
    return found


happenings = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 50)), min_size=3, max_size=20)


@pytest.mark.slow
@given(happenings, st.sampled_from((15, 60)), st.booleans())
def test_totals_and_differences_tell_the_same(changes: list[dict[str, int]], step: int, restarts: bool) -> None:
    """A process that tells all its series at each step; one that restarts in the middle begins anew."""
    totals: dict[str, int] = {}
    truth: dict[str, float] = {}
    start, cumulative, delta = BEGAN, [], []
    for number, change in enumerate(changes):
        second = 10 + number * step
        if restarts and number == len(changes) // 2:
            totals, start = {}, BEGAN + (second - 5) * 10**9
        for name, more in change.items():
            totals[name] = totals.get(name, 0) + more
            truth[name] = truth.get(name, 0.0) + more
            delta.append({**told(second, more, series=name), "aggregation_temporality": 1})
        cumulative += [told(second, total, series=name, start=start) for name, total in totals.items()]
    assume(truth)
    for number, one in enumerate(cumulative + delta):
        one["record_id"] = number.to_bytes(16, "big")
    assert increases(cumulative) == pytest.approx(truth)
    assert increases(delta) == pytest.approx(truth)


def test_a_metric_that_is_told_rarely_is_unknown_not_inflated() -> None:
    """Every ten minutes, beside another metric of the same source every minute."""
    often = [told(second, second, series="often", start=LONG_AGO) for second in range(0, 3000, 60)]
    rarely = [
        told(second, 1000 + second, series="rare", metric="rare", start=LONG_AGO) for second in range(0, 3000, 600)
    ]
    assert increases([*often, *rarely]).get("rare", 0.0) == 0.0


def test_series_that_are_first_heard_of_one_after_the_other() -> None:
    """Both were running before: neither's history counts here."""
    points = [told(0, 5000, start=LONG_AGO), told(2, 7000, series="b", start=LONG_AGO)]
    points += [told(60, 5001, start=LONG_AGO), told(62, 7003, series="b", start=LONG_AGO)]
    assert increases(points) == {"a": 1.0, "b": 3.0}


def test_the_first_error_of_a_service_that_runs_for_days() -> None:
    """Others of the same metric were told of before, this one was not: it was at zero."""
    points = [told(second, 5000 + second, start=LONG_AGO) for second in range(0, 300, 60)]
    points.append(told(240, 2, series="error", start=LONG_AGO))
    assert increases(points) == {"a": 240.0, "error": 2.0}


def test_large_whole_numbers_that_fall_begin_anew() -> None:
    """No float tells them apart."""
    points = [told(0, 2**60), told(30, 2**60 - 1)]
    assert increases(points)["a"] == pytest.approx(2.0**60)  # the first begins at its own time: unknown


def test_who_does_not_say_is_unknown() -> None:
    """A counter without a temporality may tell totals or differences."""
    assert increases([{**told(second, 100, series="x"), "aggregation_temporality": 0} for second in (0, 30)]) == {}
