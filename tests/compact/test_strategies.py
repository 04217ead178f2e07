"""Strategies: what each looks for, at which level, and the words that it has for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from neve.compact.config import CompactConfig
from neve.compact.partition_memory import PartitionMemory
from neve.compact.plan import Executor, Group, Layout, Level
from neve.compact.strategies import STRATEGIES, strategy_of
from neve.errors import ConfigError
from neve.lake.read.partition_stats import make_partition_id
from tests.compact.model import NOW, NOW_US, TARGET, ModelDelete, ModelFile, ModelTable, Tended, facts

FRAGMENT, UNDERSIZED, GOOD, OVERSIZED = TARGET // 100, TARGET // 3, TARGET, 3 * TARGET
SORT, ZORDER = Layout("sort", ("a",)), Layout("zorder", ("a", "b"))
LATELY = {make_partition_id(0, ["a"]): PartitionMemory(minor_at=NOW - timedelta(minutes=10))}
HOUR = 3_600_000_000


def made(*sizes: int, **more: object) -> list[ModelFile]:
    """Files of these sizes."""
    return [ModelFile(size, **more) for size in sizes]  # type: ignore[arg-type]


def only(care: Tended) -> Group:
    """The one group that a table's plan has."""
    (group,) = care.plan().groups
    return group


def idle(care: Tended) -> str:
    """Why nothing is done."""
    plan = care.plan()
    assert plan.groups == ()
    return plan.left_alone[0].reason


def test_an_unknown_strategy_is_refused() -> None:
    """The error lists those that there are."""
    with pytest.raises(ConfigError, match="expected one of adaptive, small_files, deletes"):
        strategy_of("best")
    assert set(STRATEGIES) == set(CompactConfig.model_fields["strategy"].annotation.__args__)  # type: ignore[union-attr]


def test_twelve_fragments_are_a_minor_rewrite() -> None:
    """They are packed at once, whenever the last time was."""
    care = Tended(ModelTable(made(*[FRAGMENT] * 12, GOOD)), "small_files", memories=LATELY)
    group = only(care)
    assert (group.level, len(group.files), group.estimate.output_files) == (Level.MINOR, 12, 1)
    assert "13 files, 86.2 kB on average, against a target of 1 MB" in group.reason
    assert "12 fragments of 125 kB or less (threshold: 12)" in group.reason
    assert "here 12 files of 120 kB become 1 of 120 kB" in group.reason


def test_a_large_fragment_waits_until_the_others_have_grown() -> None:
    """A partition that is packed every few minutes does not write it anew each time; after a quiet hour it does."""
    files = made(*[FRAGMENT // 20] * 12, FRAGMENT)
    group = only(Tended(ModelTable(files), "small_files", memories=LATELY))
    assert sorted(file.bytes for file in group.files) == [FRAGMENT // 20] * 12
    assert "1 larger one to wait until the others together are as large" in group.reason
    assert len(only(Tended(ModelTable(files), "small_files")).files) == 13


def test_two_fragments_wait_for_an_hour() -> None:
    """After that they are packed; one alone never is."""
    table = ModelTable(made(FRAGMENT, FRAGMENT))
    assert "2 fragments, too few to be packed now" in idle(Tended(table, "small_files", memories=LATELY))
    assert "for 60 min" in only(Tended(table, "small_files")).reason
    assert "one file" in idle(Tended(ModelTable(made(FRAGMENT)), "small_files"))


def test_undersized_files_that_fill_a_target_are_a_major_rewrite() -> None:
    """Fragments go with them; good files stay."""
    group = only(Tended(ModelTable(made(*[UNDERSIZED] * 4, FRAGMENT, GOOD)), "small_files"))
    assert (group.level, len(group.files)) == (Level.MAJOR, 5)
    assert "4 undersized files, 1.33 MB together, fill a file of the target size" in group.reason


def test_five_undersized_files_are_enough() -> None:
    """Even where they are less than a target together."""
    size = TARGET // 7
    assert only(Tended(ModelTable(made(*[size] * 5)), "small_files")).level is Level.MAJOR
    assert "4 undersized files, too few" in idle(Tended(ModelTable(made(*[size] * 4)), "small_files"))


def test_two_that_do_not_fit_into_one_are_left_alone() -> None:
    """A rewrite would leave two again."""
    idle(Tended(ModelTable(made(*[TARGET * 6 // 10] * 2)), "small_files"))


def test_an_oversized_file_is_split() -> None:
    """Into files of the target size."""
    group = only(Tended(ModelTable(made(OVERSIZED)), "small_files"))
    assert (group.level, group.estimate.output_files) == (Level.MAJOR, 3)
    assert "1 file of more than 1.8 MB, to be split" in group.reason


def test_full_is_off_until_it_is_asked_for_or_due() -> None:
    """By its interval once, or because a person wants it; and only where anything is gained."""
    table = ModelTable(made(*[TARGET * 8 // 10] * 10))
    assert "none is too small" in idle(Tended(table, "small_files"))
    weekly = CompactConfig(full_days=7)
    group = only(Tended(table, "small_files", weekly))
    assert (group.level, len(group.files), group.estimate.output_files) == (Level.FULL, 10, 8)
    assert "a full rewrite is due every 7 days: 2 files fewer" in group.reason
    just_done = {make_partition_id(0, ["a"]): PartitionMemory(full_at=NOW - timedelta(days=6))}
    idle(Tended(table, "small_files", weekly, memories=just_done))
    idle(Tended(ModelTable(made(GOOD, GOOD)), "small_files", weekly))


def test_deletes_by_ratio_and_by_number() -> None:
    """A file is rewritten when many of its rows are deleted, or when several delete files apply to it."""
    one, other, third = made(GOOD, GOOD, GOOD)
    vector = ModelDelete("vector", rows=11, data_path=one.path)
    few = ModelDelete("vector", rows=5, data_path=other.path)
    group = only(Tended(ModelTable([one, other, third], [vector, few]), "deletes"))
    assert [file.path for file in group.files] == [one.path]
    assert (group.files[0].deleted_rows, group.files[0].delete_files) == (11, 1)
    assert (group.executor, group.executor_reason) == (Executor.SPARK, "deletes apply to 1 file")
    assert "more than 10 % of its rows deleted" in group.reason
    two = [ModelDelete("position", data_path=third.path), ModelDelete("position", data_path=third.path)]
    assert [file.path for file in only(Tended(ModelTable([one, third], two), "deletes")).files] == [third.path]


def test_position_deletes_of_a_partition_count_together() -> None:
    """Nobody knows which files they are about; when they are many, all that they may be about are rewritten."""
    old, new = ModelFile(GOOD, sequence=1), ModelFile(GOOD, sequence=5)
    care = Tended(ModelTable([old, new], [ModelDelete("position", rows=30, sequence=2)]), "deletes")
    group = only(care)
    assert [file.path for file in group.files] == [old.path]
    assert "30 deleted positions among 100 rows: more than 10 %" in group.reason


def test_equality_deletes_are_applied_for_good() -> None:
    """With fragments they are twelve, or they delete much; afterwards they apply to nothing."""
    deletes = [ModelDelete("equality", rows=1, sequence=number) for number in range(2, 14)]
    table = ModelTable(made(GOOD, GOOD), deletes, sequence=13)
    care = Tended(table, "deletes")
    assert "12 equality-delete files that every reader has to apply to 200 rows" in only(care).reason
    care.run()
    assert "12 of them apply to no file, `neve maintain deletes` removes those" in idle(care)
    few = ModelTable(made(GOOD, GOOD), [ModelDelete("equality", rows=50)])
    assert "50 deletes, more than 10 %" in only(Tended(few, "deletes")).reason
    assert "1 delete file, too few to be applied now" in idle(
        Tended(ModelTable(made(GOOD, GOOD), [ModelDelete("equality")]), "deletes")
    )


def test_time_series_packs_neighbours_and_sorts_by_time() -> None:
    """Outputs follow each other in time; a table's own sort order wins."""
    config = CompactConfig(group_bytes=3 * TARGET)
    data = [
        ModelFile(UNDERSIZED, time_low=NOW_US - n * HOUR, time_high=NOW_US - n * HOUR + 1) for n in range(60, 20, -1)
    ]
    care = Tended(ModelTable(data[::-1]), "time_series", config, facts(time_column="ts"))
    groups = care.plan().groups
    assert len(groups) > 1
    assert [file.path for group in groups for file in group.files] == [file.path for file in data]
    assert {group.layout for group in groups} == {Layout("sort", ("ts",))}
    sorted_care = replace(care, facts=facts(layout=SORT, time_column="ts"))
    assert {group.layout for group in sorted_care.plan().groups} == {SORT}


def test_small_files_keep_an_order_that_all_of_them_have() -> None:
    """Where one lacks it, the outputs can't say that they have it."""
    in_order = made(*[FRAGMENT] * 12, sort_order_id=1)
    assert only(Tended(ModelTable(in_order), "small_files", facts=facts(layout=SORT))).layout == SORT
    mixed = [*in_order, ModelFile(FRAGMENT)]
    assert only(Tended(ModelTable(mixed), "small_files", facts=facts(layout=SORT))).layout == Layout()


def test_dimensional_sorts_what_is_not_sorted() -> None:
    """When it is a fifth of the bytes; files that say that they are sorted stay."""
    care = Tended(ModelTable([*made(GOOD, sort_order_id=1), *made(GOOD)]), "dimensional", facts=facts(layout=SORT))
    group = only(care)
    assert (group.level, group.layout, len(group.files)) == (Level.MAJOR, SORT, 1)
    assert "1 file, 50 % of the bytes, without the layout sort(a)" in group.reason
    many = ModelTable([*made(*[GOOD] * 9, sort_order_id=1), *made(GOOD)])
    idle(Tended(many, "dimensional", facts=facts(layout=SORT)))
    assert "no sort order and no z-order" in idle(Tended(ModelTable(made(GOOD, GOOD)), "dimensional"))


def test_a_z_order_is_remembered_and_not_made_twice() -> None:
    """No file says that it has one; new files make it due again, and so do other columns."""
    care = Tended(ModelTable(made(GOOD, GOOD)), "dimensional", facts=facts(layout=ZORDER))
    plan = care.run()
    assert (plan.groups[0].layout, plan.groups[0].executor) == (ZORDER, Executor.SPARK)
    assert [partition.key for partition in plan.lays_out] == [make_partition_id(0, ["a"])]
    assert care.memories[make_partition_id(0, ["a"])].layout == "zorder(a, b)"
    idle(care)
    assert replace(care, facts=facts(layout=Layout("zorder", ("b",)))).plan().groups
    care.table.files += made(GOOD, sequence=care.table.sequence)
    assert len(only(care).files) == 1


def test_a_z_order_waits_for_hot_files() -> None:
    """A partition that is still written to is packed, but not laid out."""
    hot = ModelFile(GOOD, time_low=NOW_US, time_high=NOW_US)
    data = [*made(GOOD, time_low=0, time_high=0), hot]
    idle(Tended(ModelTable(data), "adaptive", facts=facts(layout=ZORDER, time_column="ts")))


def test_cost_weighs_both_sums() -> None:
    """Many queries make it worth it, few do not; both sums are in the reason."""
    table = ModelTable(made(*[FRAGMENT] * 20))
    busy = only(Tended(table, "cost", CompactConfig(queries_per_day=100_000)))
    assert "19 files fewer save $1.53 a day and cost $" in busy.reason
    quiet = idle(Tended(table, "cost", CompactConfig(queries_per_day=0.001)))
    assert "paid back in" in quiet
    assert "30 are allowed" in quiet


def test_adaptive_says_whom_it_chose_and_why() -> None:
    """Deletes come before layout before packing, and all of it is done at once."""
    small = made(*[FRAGMENT] * 12)
    timeless = only(Tended(ModelTable(small), "adaptive"))
    assert (timeless.strategy, "the table has no time column: 12 fragments" in timeless.reason) == ("small_files", True)
    timed = only(Tended(ModelTable(small), "adaptive", facts=facts(time_column="ts")))
    assert (timed.strategy, "its time column is ts: 12 fragments" in timed.reason) == ("time_series", True)
    unsorted = only(Tended(ModelTable(small), "adaptive", facts=facts(layout=SORT, time_column="ts")))
    assert (unsorted.strategy, "has the layout sort(a)" in unsorted.reason) == ("dimensional", True)
    deleted = ModelFile(GOOD)
    with_deletes = ModelTable([*small, deleted], [ModelDelete("vector", rows=50, data_path=deleted.path)])
    both = only(Tended(with_deletes, "adaptive"))
    assert (both.strategy, len(both.files)) == ("deletes", 13)
    assert "deletes come first: 1 file" in both.reason
    assert "; 12 fragments of" in both.reason


def test_files_of_an_older_partitioning_are_rewritten_once() -> None:
    """Whatever their size; Spark puts them where they belong now, and somebody may not want that."""
    table = ModelTable(made(GOOD, spec_id=0))
    today = replace(facts(), spec_id=1)
    group = only(Tended(table, "small_files", facts=today))
    assert (group.level, group.executor) == (Level.FULL, Executor.SPARK)
    assert "1 file of partition spec 0, and the table has spec 1 now" in group.reason
    idle(Tended(table, "small_files", CompactConfig(old_specs=False), facts=today))


@pytest.mark.parametrize(
    ("file", "changes", "reason"),
    [
        (ModelFile(FRAGMENT, format="orc"), {}, "files are orc, not parquet"),
        (ModelFile(FRAGMENT), {"format_version": 3}, "format version 3 keeps the lineage of rows"),
        (ModelFile(FRAGMENT), {"arrow_columns": frozenset()}, "Arrow can't sort by ts"),
        (ModelFile(FRAGMENT), {}, None),
    ],
)
def test_who_rewrites(file: ModelFile, changes: dict[str, object], reason: str | None) -> None:
    """Arrow where it can, Spark where it must, each with the reason; a wish that can't be met is refused."""
    table = ModelTable([file, *made(*[FRAGMENT] * 11)])
    told = replace(facts(time_column="ts"), **changes)  # type: ignore[arg-type]
    group = only(Tended(table, "time_series", facts=told))
    expected = (Executor.SPARK, reason) if reason else (Executor.ARROW, "plain Parquet files without deletes")
    assert (group.executor, group.executor_reason) == expected
    arrow = Tended(table, "time_series", CompactConfig(executor="arrow"), told)
    if reason:
        with pytest.raises(ConfigError, match=r"compact.executor is 'arrow', but in p=a"):
            arrow.plan()
    else:
        assert only(arrow).executor is Executor.ARROW
        assert only(replace(arrow, config=CompactConfig(executor="spark"))).executor is Executor.SPARK
