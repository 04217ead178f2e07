"""Samples that are kept over commits: those of a query that keeps nothing, from the files that were added."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.promql.series import MemorySource
from neve.promql.storage.metric_source import MetricSource
from neve.promql.storage.sample_blocks import merge
from neve.query.engine.program import KeptValues
from tests.promql.storage.test_rolled_windows import World, make_point
from tests.promql.storage.test_sample_blocks import SELECTORS, assert_equal, select

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from neve.promql.storage.metric_source import TimeWindow

samples = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 20)), st.floats(0, 9), max_size=40)


@given(samples, samples)
def test_merge(older: dict[tuple[int, int], float], added: dict[tuple[int, int], float]) -> None:
    """Samples of both are in order of series and time, and of two at one time the added one counts."""
    assert_equal(merge(_build(older), _build(added)), _build(older | added))


def _build(points: dict[tuple[int, int], float]) -> Any:
    source = MemorySource()
    for number in sorted({owner for owner, _ in points}):
        rows = sorted((at, value) for (owner, at), value in points.items() if owner == number)
        source.add((("n", str(number)),), [(at, value, 0) for at, value in rows])
    return source.select((), 0, 100)


class GrowingLake:
    """Worlds of a lake after each commit, whose points are a list that grows."""

    def __init__(self, commits: Sequence[list[dict[str, Any]]]) -> None:
        self.worlds: list[World] = []
        points: list[dict[str, Any]] = []
        for commit in commits:
            points = [*points, *commit]
            self.worlds.append(World(points, final=0))
        self.statements: list[tuple[str, int]] = []

    def open(self, number: int, kept: KeptValues) -> MetricSource:
        """Return the series after a commit, with the values of queries before it."""
        world = self.worlds[number]
        grown = [str(one) for one in range(number)]
        kept.enter("acme", (("metrics", str(number)), ("recorded", str(number))), {"metrics": grown})

        def run(sql: str, parameters: Any, window: TimeWindow) -> pa.Table:
            self.statements.append(("all", number))
            return world.run(sql, parameters, window)

        def run_added(sql: str, parameters: Any, window: TimeWindow, since: Mapping[str, str]) -> pa.Table:
            self.statements.append(("added", number))
            before = self.worlds[int(since["metrics"])].tables["metrics"].num_rows
            every = world.tables
            world.tables = {**every, "metrics": every["metrics"].slice(before)}
            try:
                return world.run(sql, parameters, window)
            finally:
                world.tables = every

        return MetricSource(run, run_new=world.run_new, kept=kept, run_added=run_added)


def make_commits(seed: int, count: int) -> list[list[dict[str, Any]]]:
    """Return points of some commits: of known and new series, at new and old times, and one without a point."""
    chance = random.Random(seed)
    return [
        [
            make_point(
                chance.uniform(0, 600 * (number + 1)), chance.random(), queue=chance.choice("abcd"[: number + 2])
            )
            for _ in range(chance.choice([1, 5, 40]))
        ]
        for number in range(count)
    ]


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, 99),
    st.lists(st.tuples(st.booleans(), st.sampled_from(SELECTORS), st.floats(0, 2000)), min_size=2, max_size=7),
)
def test_same_samples(seed: int, questions: list[tuple[bool, str, float]]) -> None:
    """Queries between commits have the samples of queries that keep nothing."""
    lake, kept, number = GrowingLake(make_commits(seed, 4)), KeptValues(), 0
    for is_commit, text, start in questions:
        number = min(number + is_commit, 3)
        warm, cold = lake.open(number, kept), MetricSource(lake.worlds[number].run)
        for _ in range(2):
            assert_equal(select(warm, text, start, start + 1500), select(cold, text, start, start + 1500))


@pytest.mark.slow
def test_statements_after_commit() -> None:
    """After a commit, a query reads added files alone, and after one of another table it reads nothing."""
    lake, kept = GrowingLake(make_commits(3, 2)), KeptValues()
    assert len(select(lake.open(0, kept), "depth", 0, 3000))
    assert [kind for kind, _ in lake.statements] == ["all"]
    lake.statements.clear()
    assert len(select(lake.open(1, kept), "depth", 5, 3005))
    assert {kind for kind, _ in lake.statements} == {"added"}
    lake.statements.clear()
    source = lake.open(1, kept)
    kept.enter("acme", (("metrics", "1"), ("recorded", "later")), {"metrics": ["0"]})
    assert len(select(source, "depth", 9, 3009))
    assert lake.statements == []


def test_removed_rows() -> None:
    """A value is dropped if a table has lost rows since, and is no older value of another organization."""
    kept = KeptValues(100)
    for organization, grown in (("acme", {"metrics": []}), ("globex", {"metrics": ["1"]})):
        kept.enter("acme", (("metrics", "1"),), {"metrics": []})
        kept.put("a", 1, 10)
        kept.enter(organization, (("metrics", "2"),), grown)
        assert kept.get_older("a") is None


def test_older_value() -> None:
    """An older value has the version of the table that has grown, until a current one replaces it."""
    kept = KeptValues(100)
    kept.enter("acme", (("metrics", "1"), ("recorded", "1")), {"metrics": []})
    kept.put("a", "old", 60)
    kept.put("a", "old", 50)
    kept.enter("acme", (("metrics", "3"), ("recorded", "2")), {"metrics": ["2", "1"]})
    assert kept.get("a") is None
    kept.put("b", "b", 40)
    assert kept.get_older("a") == ("old", {"metrics": "1"})
    kept.put("a", "new", 45)
    assert kept.get("a") == "new"
    assert kept.get_older("a") is None
    assert kept.get("b") == "b"
