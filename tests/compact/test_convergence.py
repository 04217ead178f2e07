"""Repeated runs come to an end: what was rewritten is no candidate any more."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from neve.compact.config import CompactConfig
from neve.compact.plan import Layout
from tests.compact.model import NOW_US, TARGET, ModelDelete, ModelFile, ModelTable, Tended, facts

ENDLESS = CompactConfig(max_bytes=0, max_files=0, max_seconds=0, group_bytes=4 * TARGET)
TIGHT = ENDLESS.model_copy(update={"group_bytes": TARGET})
ALL = ("adaptive", "small_files", "deletes", "time_series", "dimensional", "cost")
LAYOUTS = (Layout(), Layout("sort", ("a",)), Layout("zorder", ("a", "b")))
MINUTE = 60_000_000

fragments, undersized = st.integers(1, TARGET // 8), st.integers(TARGET // 8 + 1, TARGET * 3 // 4)
good, oversized = st.integers(TARGET * 3 // 4, TARGET * 9 // 5), st.integers(TARGET * 9 // 5, 6 * TARGET)
mixtures = st.sampled_from(
    [fragments, undersized, fragments | undersized, undersized | good, fragments | undersized | good | oversized]
)
times = st.none() | st.integers(0, 200)


@st.composite
def files(draw: st.DrawFn, sizes: st.SearchStrategy[int]) -> ModelFile:
    """Any data file of some sizes."""
    minutes = draw(times)
    time = None if minutes is None else NOW_US - minutes * MINUTE
    return ModelFile(
        bytes=draw(sizes),
        rows=draw(st.integers(1, 1000)),
        sequence=draw(st.integers(1, 9)),
        partition=draw(st.sampled_from(['["a"]', '["b"]'])),
        time_low=time,
        time_high=time,
        sort_order_id=draw(st.sampled_from([None, 1])),
    )


@st.composite
def tables(draw: st.DrawFn) -> ModelTable:
    """Any table, with deletes of all kinds."""
    most = draw(st.sampled_from([6, 30, 80]))
    data = draw(st.lists(files(draw(mixtures)), min_size=1, max_size=most))
    deletes = draw(
        st.lists(
            st.builds(
                ModelDelete,
                kind=st.sampled_from(["position", "equality", "everywhere", "own"]),
                rows=st.integers(1, 300),
                sequence=st.integers(1, 10),
                partition=st.sampled_from(['["a"]', '["b"]']),
            ),
            max_size=draw(st.sampled_from([0, 3, 14])),
        )
    )
    named = [
        replace(d, kind="vector", data_path=data[n % len(data)].path, partition=data[n % len(data)].partition)
        if d.kind == "own"
        else d
        for n, d in enumerate(deletes)
    ]
    return ModelTable(data, named)


def tended(table: ModelTable, strategy: str, layout: Layout, config: CompactConfig = ENDLESS) -> Tended:
    """A table in the care of a strategy."""
    return Tended(table, strategy, config, facts(TARGET, layout, "ts"))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ALL)
@seed(1)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables(), layout=st.sampled_from(LAYOUTS), config=st.sampled_from([ENDLESS, TIGHT]))
def test_a_second_plan_is_empty(strategy: str, table: ModelTable, layout: Layout, config: CompactConfig) -> None:
    """When outputs are what the plan expects, one run leaves nothing to do."""
    care = tended(table, strategy, layout, config)
    care.run()
    again = care.plan()
    assert again.groups == (), [group.reason for group in again.groups]
    # A file that is a byte too large until its deletes are applied is told so, and no rewrite would split it.
    assert all("to be split" in reason for reason in care.working())


@pytest.mark.parametrize("strategy", ALL)
@seed(2)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables(), layout=st.sampled_from(LAYOUTS), ratio=st.floats(0.3, 1.0), assumed=st.floats(0.3, 1.0))
def test_other_sizes_than_expected_come_to_an_end_too(
    strategy: str, table: ModelTable, layout: Layout, ratio: float, assumed: float
) -> None:
    """Whatever compression is assumed and whatever comes: files get fewer with every run, and soon nothing is left."""
    care = tended(table, strategy, layout)
    care.ratio = assumed
    counts = []
    for _round in range(8):
        if not care.run(ratio).groups:
            break
        counts.append(len(care.table.files))
    assert not care.plan().groups
    assert len(counts) <= 6


@seed(3)
@settings(max_examples=40, deadline=None)
@given(table=tables(), strategy=st.sampled_from(ALL), group_files=st.integers(2, 9), max_files=st.integers(4, 40))
def test_small_groups_and_limits_only_take_longer(
    table: ModelTable, strategy: str, group_files: int, max_files: int
) -> None:
    """What a limit cuts is done by later runs, until nothing is left that is not too large for the limit."""
    config = ENDLESS.model_copy(update={"group_files": group_files, "max_files": max(group_files, max_files)})
    care = tended(table, strategy, Layout("sort", ("a",)), config)
    for _round in range(60):
        if not care.run().groups:
            break
    assert not care.plan().groups


@pytest.mark.slow
@seed(4)
@settings(max_examples=60, deadline=None)
@given(table=tables(), strategy=st.sampled_from(ALL), layout=st.sampled_from(LAYOUTS))
def test_every_group_is_worth_it(table: ModelTable, strategy: str, layout: Layout) -> None:
    """A group has fewer outputs than inputs, or splits, or applies deletes, or lays out; and no file is in two."""
    care = tended(table, strategy, layout, TIGHT)
    unlaid = {
        file.path
        for found in care.table.candidates(
            care.question, {(f.spec_id, f.partition): True for f in table.files}, 1000
        ).values()
        for file in found
        if file.unlaid
    }
    seen: set[str] = set()
    for group in care.plan().groups:
        paths = {file.path for file in group.files}
        assert not paths & seen
        seen |= paths
        fewer = len(group.files) > group.estimate.output_files
        splits = any(file.bytes > 1.8 * TARGET for file in group.files)
        assert fewer or splits or group.has_deletes or paths & unlaid, group.reason


@seed(5)
@settings(max_examples=40, deadline=None)
@given(table=tables(), strategy=st.sampled_from(ALL), layout=st.sampled_from(LAYOUTS))
def test_every_partition_has_its_reason(table: ModelTable, strategy: str, layout: Layout) -> None:
    """Each partition is rewritten, left alone or cut, and there is a sentence for it."""
    plan = tended(table, strategy, layout).plan()
    told = {group.partition for group in plan.groups}
    told |= {entry.partition for entry in plan.left_alone}
    told |= {entry.partition for entry in plan.cut}
    assert {partition.label for partition in told} == {f"p={file.partition[2]}" for file in table.files}
    assert all(group.reason and group.executor_reason for group in plan.groups)
    assert all(entry.reason for entry in plan.left_alone)
    assert all(entry.reason for entry in plan.cut)


@pytest.mark.parametrize("number", range(20))
def test_many_files_are_packed_for_good(number: int) -> None:
    """However groups are cut, what comes out of hundreds of files does not fit into fewer."""
    source = random.Random(number)
    data = [ModelFile(source.randrange(1, TARGET * 3 // 4), partition='["a"]') for _file in range(300)]
    total = sum(file.bytes for file in data)
    care = tended(ModelTable(data), "small_files", Layout(), TIGHT)
    care.run()
    assert care.working() == []
    assert len(care.table.files) <= 1.2 * total / TARGET


def test_hot_files_are_left_alone() -> None:
    """Files that got records within the hot window are in no group; late data that arrives now is in one."""
    now = NOW_US - MINUTE // 6
    hot = [ModelFile(10_000, time_low=now, time_high=now) for _number in range(20)]
    late = [ModelFile(10_000, time_low=0, time_high=NOW_US - 60 * MINUTE, sequence=9) for _number in range(20)]
    plan = tended(ModelTable(hot + late), "time_series", Layout()).plan()
    assert [len(group.files) for group in plan.groups] == [20]
    assert {file.path for file in plan.groups[0].files} == {file.path for file in late}
    assert "20 of them hot" in plan.groups[0].reason
