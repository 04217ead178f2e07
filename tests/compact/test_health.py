"""Health: what points a partition has left, and what a summary alone can tell."""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from neve.compact.health import check_summary, score_partition, score_table
from neve.lake.read.partition_stats import DeleteCounts, PartitionStats, TargetSizes

SIZES = TargetSizes(1000)


def partition(files: int, size: int, rows: int = 100, position: int = 0, equality: int = 0) -> PartitionStats:
    """A partition with so many files of a size, rows and deletes."""
    deletes = DeleteCounts(position_rows=position, equality_rows=equality)
    return PartitionStats(0, ("a",), "p=a", files=files, bytes=files * size, rows=rows, deletes=deletes)


@pytest.mark.parametrize(
    ("stats", "points"),
    [
        (partition(1, 5), 100.0),
        (partition(12, 750), 100.0),
        (partition(12, 375), 80.0),  # half of the size that is good, at full weight
        (partition(6, 375), 90.0),  # the same with half of the files: half of the weight
        (partition(100, 1), 60.4),  # tiny ones: one would do
        (partition(12, 750, equality=10), 60.0),
        (partition(12, 750, equality=90), 60.0),
        (partition(12, 750, position=10), 90.0),
        (partition(12, 750, position=20, equality=10), 40.0),
    ],
)
def test_points(stats: PartitionStats, points: float) -> None:
    """40 points go with small files, 40 with equality deletes, 20 with position deletes."""
    assert score_partition(stats, SIZES) == pytest.approx(points)


@seed(1)
@given(
    files=st.integers(0, 10_000),
    size=st.integers(0, 3000),
    rows=st.integers(0, 10_000),
    position=st.integers(0, 20_000),
    equality=st.integers(0, 20_000),
)
def test_points_lie_between_0_and_100(files: int, size: int, rows: int, position: int, equality: int) -> None:
    """Whatever a partition has."""
    assert 0 <= score_partition(partition(files, size, rows, position, equality), SIZES) <= 100


def test_a_table_is_as_well_as_its_files_are() -> None:
    """A partition with many files weighs more than one with few; a table without files is well."""
    assert score_table([(partition(90, 1), 10.0), (partition(10, 1), 100.0)]) == pytest.approx(19.0)
    assert score_table([]) == 100.0


def summary(files: int, total: int, deletes: int = 0) -> dict[str, str]:
    """A snapshot's summary."""
    return {
        "total-data-files": str(files),
        "total-files-size": str(total),
        "total-delete-files": str(deletes),
    }


def test_a_summary_can_say_that_there_is_nothing_to_do() -> None:
    """No snapshot, no files, or large files on average and no deletes; the sentence says how it was found."""
    assert check_summary(None, SIZES) == "nothing to do: the table has no snapshot"
    assert check_summary(summary(0, 0), SIZES) == "nothing to do: the table has no data files"
    told = check_summary(summary(10, 9000), SIZES)
    assert told is not None
    assert "10 files, 900 B on average, against a target of 1 kB" in told
    assert "partitions were not checked" in told


@pytest.mark.parametrize(
    "given_summary", [summary(10, 7500), summary(10, 9000, deletes=1), {}, {"total-data-files": "many"}]
)
def test_a_summary_that_leaves_it_open(given_summary: dict[str, str]) -> None:
    """Small files, deletes, or a writer that does not count: the partitions have to be looked at."""
    assert check_summary(given_summary, SIZES) is None
