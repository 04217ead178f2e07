"""The planner: order, limits and what they cut, names that stay the same, and partitions to search."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from neve.compact.config import CompactConfig
from neve.compact.partition_memory import PartitionMemory, remember
from neve.compact.plan import Executor, InputFile, Layout, Level, Partition
from neve.compact.planning.groups import make_dedupe_group, make_group_id
from neve.lake.read.partition_stats import make_partition_id
from tests.compact.model import NOW, NOW_US, TARGET, ModelFile, ModelTable, Tended, facts

FRAGMENT = TARGET // 100
DAY = 86_400_000_000


def partition_of(name: str, files: int, size: int = FRAGMENT) -> list[ModelFile]:
    """Files of one partition."""
    return [ModelFile(size, partition=f'["{name}"]') for _file in range(files)]


def test_the_largest_work_comes_first() -> None:
    """So that what waits grows until it has its turn."""
    data = [*partition_of("a", 12), *partition_of("b", 40), *partition_of("c", 20)]
    plan = Tended(ModelTable(data), "small_files").plan()
    assert [group.partition.label for group in plan.groups] == ["p=b", "p=c", "p=a"]


def test_what_a_limit_cuts_is_said() -> None:
    """With its name, its value, and how many files of which partition wait."""
    data = [*partition_of("a", 12), *partition_of("b", 40), *partition_of("c", 20)]
    plan = Tended(ModelTable(data), "small_files", CompactConfig(max_files=50)).plan()
    assert [group.partition.label for group in plan.groups] == ["p=b"]
    assert [(cut.partition.label, cut.files, cut.limit) for cut in plan.cut] == [
        ("p=c", 20, "max_files"),
        ("p=a", 12, "max_files"),
    ]
    assert all("max_files (50 files) is used up" in cut.reason for cut in plan.cut)
    assert plan.reason == "1 group of 40 files in 1 of 3 partitions; 2 partitions cut by a limit"


def test_a_partition_of_too_many_files_is_begun() -> None:
    """The first files are taken, the others wait."""
    plan = Tended(ModelTable(partition_of("a", 100)), "small_files", CompactConfig(max_files=30)).plan()
    assert [len(group.files) for group in plan.groups] == [30]
    assert [(cut.files, cut.limit) for cut in plan.cut] == [(70, "max_files")]
    assert Tended(ModelTable(partition_of("a", 30)), "small_files", CompactConfig(max_files=30)).plan().cut == ()


def test_what_no_run_could_take_leaves_the_others_their_turn() -> None:
    """The person is told to raise the limit."""
    data = [*partition_of("a", 1, 9 * TARGET), *partition_of("b", 12)]
    plan = Tended(ModelTable(data), "small_files", CompactConfig(max_bytes=TARGET)).plan()
    assert [group.partition.label for group in plan.groups] == ["p=b"]
    assert [(cut.partition.label, cut.limit) for cut in plan.cut] == [("p=a", "max_bytes")]
    assert "is less than this needs by itself: raise it" in plan.cut[0].reason


@pytest.mark.parametrize("limit", ["max_seconds", "max_dollars"])
def test_time_and_money_are_limits_too(limit: str) -> None:
    """A hair more than nothing allows nothing."""
    plan = Tended(ModelTable(partition_of("a", 12)), "small_files", CompactConfig(**{limit: 1e-9})).plan()
    assert plan.groups == ()
    assert [cut.limit for cut in plan.cut] == [limit]


@seed(1)
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 4 * TARGET)), min_size=1, max_size=80),
    st.integers(2, 60),
    st.integers(TARGET, 20 * TARGET),
)
def test_no_plan_passes_its_limits(files: list[tuple[str, int]], max_files: int, max_bytes: int) -> None:
    """Bytes, files, seconds and dollars of all groups together."""
    data = [ModelFile(size, partition=f'["{name}"]') for name, size in files]
    config = CompactConfig(
        max_files=max_files, max_bytes=max_bytes, max_seconds=0.5, max_dollars=0.001, group_bytes=2 * TARGET
    )
    plan = Tended(ModelTable(data), "small_files", config).plan()
    assert sum(len(group.files) for group in plan.groups) <= max_files
    assert sum(group.bytes for group in plan.groups) <= max_bytes
    assert plan.estimate.seconds <= 0.5 * config.concurrency
    assert plan.estimate.dollars <= 0.001


def test_a_z_order_is_done_whole_or_not_at_all() -> None:
    """Half of one would be done again by the next run, and so on."""
    config = CompactConfig(max_bytes=6 * TARGET, group_bytes=3 * TARGET)
    care = Tended(
        ModelTable(partition_of("a", 8, TARGET)), "dimensional", config, facts(layout=Layout("zorder", ("a",)))
    )
    plan = care.plan()
    assert plan.groups == ()
    assert [(cut.files, cut.limit) for cut in plan.cut] == [(8, "max_bytes")]
    assert len(replace(care, config=CompactConfig(group_bytes=3 * TARGET)).plan().groups) > 1


def test_the_same_work_has_the_same_name() -> None:
    """A group is named by its files and how they are rewritten, a plan by its time too."""
    table = ModelTable(partition_of("a", 12))
    first, again = (Tended(table, "small_files").plan() for _time in range(2))
    assert first == again
    later = replace(Tended(table, "small_files"), now=NOW + timedelta(seconds=1)).plan()
    assert [group.id for group in later.groups] == [group.id for group in first.groups]
    assert later.id > first.id
    files = [InputFile("x", 1, 1, 1), InputFile("y", 1, 1, 1)]
    names = {
        make_group_id("u", files, Layout()),
        make_group_id("u", files[::-1], Layout()),
        make_group_id("u", files, Layout("sort", ("a",))),
        make_group_id("u", files, Layout(), deduplicate=True),
        make_group_id("v", files, Layout()),
    }
    assert len(names) == 4


def test_closed_partitions_are_looked_through_for_duplicates_once() -> None:
    """The oldest first; not those that may still get records, nor those that got none since."""
    data = [
        ModelFile(TARGET, partition=f'["{name}"]', time_low=0, time_high=NOW_US - days * DAY - 1, sequence=5)
        for name, days in (("a", 3), ("b", 2), ("c", 0), ("d", 4), ("e", 5))
    ]
    with_ids = replace(facts(time_column="ts"), has_record_id=True)
    looked_at = {
        make_partition_id(0, ["d"]): PartitionMemory(deduplicated_sequence=5),
        make_partition_id(0, ["e"]): PartitionMemory(deduplicated_sequence=4),
    }
    care = Tended(ModelTable(data), "time_series", CompactConfig(duplicate_partitions=2), with_ids, memories=looked_at)
    plan = care.plan()
    assert [partition.label for partition in plan.check_duplicates] == ["p=e", "p=a"]
    assert "2 partitions to search for duplicates" in plan.reason
    assert replace(care, config=CompactConfig(deduplicate=False)).plan().check_duplicates == ()
    assert replace(care, facts=facts(time_column="ts")).plan().check_duplicates == ()


def test_a_group_that_removes_duplicates() -> None:
    """All files of the partition, by Spark, with the number in the reason."""
    care = Tended(ModelTable([]), facts=facts(layout=Layout("sort", ("a",))))
    files = [InputFile(f"f{n}", TARGET, 100, 1) for n in range(4)]
    group = make_dedupe_group(Partition(0, ("a",), "p=a"), files, 100, care.context)
    assert (group.deduplicate, group.executor, group.level) == (True, Executor.SPARK, Level.FULL)
    assert (group.layout, group.estimate.output_files) == (Layout("sort", ("a",)), 3)
    assert group.reason == "100 records of 400 are duplicates, and the partition is closed"


def test_what_a_run_remembers() -> None:
    """When it was; a layout only when all of the partition got it; and what was looked through."""
    care = Tended(
        ModelTable(partition_of("a", 12, TARGET)),
        "dimensional",
        CompactConfig(group_bytes=3 * TARGET),
        facts(layout=Layout("zorder", ("a",))),
    )
    plan = care.plan()
    ids = [group.id for group in plan.groups]
    assert len(ids) > 1
    assert remember(plan, ids[:1], {}, NOW) == {make_partition_id(0, ["a"]): PartitionMemory(minor_at=NOW)}
    assert remember(plan, ids, {}, NOW) == {
        make_partition_id(0, ["a"]): PartitionMemory("zorder(a)", plan.sequence, minor_at=NOW)
    }
    assert remember(plan, (), {}, NOW, searched=[make_partition_id(0, ["b"])]) == {
        make_partition_id(0, ["b"]): PartitionMemory(deduplicated_sequence=plan.sequence)
    }
    assert remember(plan, (), {}, NOW) == {}
