"""Manifests, deletes and statistics: done where it pays, and told why not where it does not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.maintain.deletes import PositionDeletes, plan_deletes
from neve.maintain.manifests import plan_manifests
from neve.maintain.statistics import TableDescription, choose_columns, plan_statistics

MB = 1024 * 1024


@pytest.mark.parametrize(
    ("sizes", "rewrite", "reason"),
    [
        ([], False, "the table has no manifests"),
        ([1000] * 19, False, "only 19 manifests: not rewritten below 20"),
        ([8 * MB] * 20, False, "20 manifests for 20 that are needed at 8,388,608 B each: well filled"),
        ([MB] * 40, True, "40 manifests of 1,048,576 B on average would fit into 5"),
    ],
)
def test_manifests_are_rewritten_where_it_pays(sizes: list[int], rewrite: bool, reason: str) -> None:
    """By their number and their size."""
    plan = plan_manifests({"data": sizes}, target=8 * MB, least=20)
    assert (plan.rewrite, plan.reason) == (rewrite, reason)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 20 * MB), max_size=200))
def test_rewritten_manifests_are_not_rewritten_again(sizes: list[int]) -> None:
    """What comes of a rewrite is well filled, so maintenance comes to rest."""
    plan = plan_manifests({"data": sizes, "deletes": sizes[:50]}, target=8 * MB, least=5)
    if plan.rewrite:
        after = {
            kind: [8 * MB] * (-(-sum(every) // (8 * MB))) for kind, every in (("data", sizes), ("deletes", sizes[:50]))
        }
        assert not plan_manifests(after, target=8 * MB, least=5).rewrite


def about(path: str, *, data: str = "a", partition: int = 1) -> PositionDeletes:
    """Position deletes about one data file."""
    return PositionDeletes(path, partition, 100, frozenset({data}))


@pytest.mark.parametrize(
    ("deletes", "rewrite", "reason"),
    [
        ([], False, "no deletes"),
        (
            [about("1"), about("2", data="b")],
            False,
            "2 files of position deletes, 0 more than needed: not",
        ),
        ([about("1"), about("2"), about("3")], True, "3 files of position deletes could be 1"),
        (
            [about("1"), about("2", data="gone")],
            True,
            "1 of 2 files of position deletes for removed data files",
        ),
        (
            [about("1"), about("2", partition=9)],
            True,
            "1 of 2 files of position deletes for removed data files",
        ),
    ],
)
def test_deletes_are_rewritten_where_it_pays(deletes: list[PositionDeletes], rewrite: bool, reason: str) -> None:
    """Where several are about one data file, or their data files are gone."""
    plan = plan_deletes(deletes, [(1, "a"), (1, "b")], least=2)
    assert plan.rewrite == rewrite
    assert plan.reason.startswith(reason)


def test_deletes_of_other_kinds_are_left_to_compaction() -> None:
    """And said to be there."""
    plan = plan_deletes([], [(1, "a")], least=2, others=3)
    assert plan.reason == "no position deletes (3 other delete files: compaction applies them)"


def test_statistics_are_computed_once_for_a_snapshot() -> None:
    """Of the user's columns, else of those that the table is declared or laid out with."""
    table = TableDescription(("service_name", "timestamp", "x"), ("x", "x"), True, 7)
    assert choose_columns("other", table, None) == ("x",)
    assert choose_columns("spans", table, None) == ("service_name",)
    assert choose_columns("spans", table, ["x", "timestamp"]) == ("x", "timestamp")
    plan = plan_statistics(table, ("x",))
    assert (plan.columns, plan.partitions) == (("x",), True)
    done = TableDescription(table.columns, table.laid_out_by, True, 7, frozenset({"x"}), has_partition_statistics=True)
    assert plan_statistics(done, ("x",)).reason == "the current snapshot has its statistics"
    assert plan_statistics(TableDescription((), (), False, None), ()).reason == "the table is empty"
