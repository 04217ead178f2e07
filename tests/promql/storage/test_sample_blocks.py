"""Blocks of samples: the same series and samples as without them, and fewer statements."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.promql.language.parser import parse
from neve.promql.language.syntax import VectorSelector
from neve.promql.series import MemorySource, SeriesSet, build_series
from neve.promql.storage.metric_source import MetricSource
from neve.promql.storage.sample_blocks import cut, widen
from neve.promql.storage.series_catalog import QueryValues
from tests.promql.storage.test_rolled_windows import BEGIN_S, World, make_point

if TYPE_CHECKING:
    from neve.promql.storage.metric_source import TimeWindow

SELECTORS = ["depth", 'depth{queue="a"}', 'depth{queue!="a"}', 'depth{queue=~"b|c"}', 'depth{queue="none"}']
samples = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50)), unique=True, max_size=60)


@given(samples, st.integers(0, 30), st.integers(0, 30), st.lists(st.booleans(), min_size=10, max_size=10))
def test_cut(points: list[tuple[int, int]], start: int, length: int, chosen: list[bool]) -> None:
    """A cut has the chosen series with a sample in the range, and those samples."""
    source = MemorySource()
    for number in range(10):
        times = sorted(at for owner, at in points if owner == number)
        source.add((("n", str(number)),), [(at, float(at), 0) for at in times])
    whole = source.select((), 0, 100)
    found = cut(whole, np.array(chosen), start, start + length)
    kept = [
        (labels, [one for one in source.samples(labels) if start <= one[0] <= start + length])
        for labels, is_chosen in zip(whole.labels, chosen, strict=True)
        if is_chosen
    ]
    assert_equal(found, build_series([one for one in kept if one[1]]))


@given(st.integers(0, 10**12), st.integers(0, 10**10))
def test_widen(start: int, length: int) -> None:
    """A block has its range, is at most a quarter or two minutes longer, and is its own block."""
    first, last = widen(start, start + length)
    assert first <= start <= start + length <= last
    assert last - first - length <= max(length / 4, 120_000)


def assert_equal(found: SeriesSet, expected: SeriesSet) -> None:
    """Compare series and samples."""
    assert found.labels == expected.labels
    for name in ("bounds", "times", "values"):
        np.testing.assert_array_equal(getattr(found.floats, name), getattr(expected.floats, name))


def make_world(seed: int = 5) -> World:
    """Return three gauges with some samples in two hours."""
    chance = random.Random(seed)
    points = [make_point(chance.uniform(0, 7200), chance.random(), queue=queue) for queue in "abc" for _ in range(60)]
    return World(points, final=0)


def select(source: MetricSource, text: str, start_s: float, end_s: float) -> SeriesSet:
    """Return the series of a selector, some seconds after the beginning."""
    node = parse(text)
    assert isinstance(node, VectorSelector)
    return source.select(node.all_matchers, *(BEGIN_S * 1000 + round(one * 1000) for one in (start_s, end_s)))


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.sampled_from(SELECTORS), st.floats(0, 7200), st.floats(0, 3000)),
        min_size=1,
        max_size=6,
    )
)
def test_same_samples(questions: list[tuple[str, float, float]]) -> None:
    """Queries that follow each other have the samples of queries that keep nothing."""
    world, kept = make_world(), QueryValues()
    for text, start, length in questions:
        warm = MetricSource(world.run, run_new=world.run_new, kept=kept)
        cold = MetricSource(world.run)
        assert_equal(select(warm, text, start, start + length), select(cold, text, start, start + length))


@pytest.mark.slow
def test_shared_block() -> None:
    """A range that moved by seconds, and a narrower selector, need no statement over points."""
    world, kept = make_world(), QueryValues()
    read: list[str] = []

    def run(sql: str, parameters: Any, window: TimeWindow) -> Any:
        read.append(sql)
        return world.run(sql, parameters, window)

    for text, shift in (("depth", 0), ("depth", 7), ('depth{queue="b"}', 11)):
        assert len(select(MetricSource(run, run_new=world.run_new, kept=kept), text, 700 - shift, 3500 - shift))
    assert len(read) == 1


@pytest.mark.slow
def test_second_selector() -> None:
    """The first selector of a metric reads its own series, the second one those of all selectors."""
    world, kept = make_world(), QueryValues()
    read: list[str] = []

    def run(sql: str, parameters: Any, window: TimeWindow) -> Any:
        read.append(sql)
        return world.run(sql, parameters, window)

    for queue in "abca":
        assert len(select(MetricSource(run, run_new=world.run_new, kept=kept), f'depth{{queue="{queue}"}}', 700, 3500))
    assert ["series_id IN" in one for one in read] == [True, False]


@pytest.mark.slow
def test_nothing_ahead() -> None:
    """A caller whose bytes are limited reads its own range and series, and later queries those that they lack."""
    world, kept = make_world(), QueryValues()
    windows: list[tuple[str, TimeWindow]] = []

    def run(sql: str, parameters: Any, window: TimeWindow) -> Any:
        windows.append((sql, window))
        return world.run(sql, parameters, window)

    for queue in "ab":
        source = MetricSource(run, run_new=world.run_new, kept=kept, ahead_samples=0)
        assert len(select(source, f'depth{{queue="{queue}"}}', 701, 3499))
    assert ["series_id IN" in sql for sql, _ in windows] == [True, True]
    [bounds] = {window for _, window in windows}
    assert [one.timestamp() - BEGIN_S for one in bounds if one is not None] == pytest.approx([701, 3499.001])


@pytest.mark.slow
def test_bucket_label_of_gauge() -> None:
    """A matcher of the label `le` applies to gauges that have it as an attribute."""
    points = [make_point(60.0 + at, 1.0, attributes=[("le", bound)]) for at in range(2) for bound in ("1", "2")]
    world = World(points, final=0)
    for run_new in (world.run_new, None):
        found = select(MetricSource(world.run, run_new=run_new), 'depth{le="1"}', 0, 300)
        assert [dict(labels)["le"] for labels in found.labels] == ["1"]
