"""How well a partition is, from 0 to 100, and the look at a table that costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.compact.words import number, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neve.lake.partition_stats import PartitionStats
    from neve.lake.target_sizes import TargetSizes

FILES = 12  # so many files of a partition are too many, where they are small
EQUALITY_SHARE, POSITION_SHARE = 0.1, 0.2
SIZE_POINTS, EQUALITY_POINTS, POSITION_POINTS = 40, 40, 20


def health(stats: PartitionStats, sizes: TargetSizes) -> float:
    """The points that a partition has left: 40 for the size of its files, 40 and 20 for few rows deleted either way.

    The formula is Amoro's but for one thing. There, what is wrong counts less in a partition that has few files or few
    bytes. Deletes in few bytes cost little; files cost by their number, and hundreds of tiny ones are not well.
    """
    if stats.files <= 1:
        return 100.0
    many = _part(stats.files, FILES)
    weight = many * _part(stats.bytes, sizes.small)
    rows = max(1, stats.rows)
    too_many = max(0.0, 1 - max(1.0, stats.bytes / sizes.small) / stats.files)
    equality = _part(stats.deletes.equality_rows / rows, EQUALITY_SHARE)
    position = _part(stats.deletes.position_rows / rows, POSITION_SHARE)
    return (
        SIZE_POINTS * (1 - many * too_many)
        + EQUALITY_POINTS * (1 - weight * equality)
        + POSITION_POINTS * (1 - weight * position)
    )


def _part(value: float, whole: float) -> float:
    return min(value, whole) / whole if whole else 1.0


def table_health(partitions: Iterable[tuple[PartitionStats, float]]) -> float:
    """The health of a table: that of its partitions, each as often as it has files, because files are what costs."""
    weighed = [(stats.files, points) for stats, points in partitions]
    files = sum(count for count, _points in weighed)
    return sum(count * points for count, points in weighed) / files if files else 100.0


def cheap_check(summary: Mapping[str, str] | None, sizes: TargetSizes) -> str | None:
    """Why there is nothing to do, as far as a snapshot's summary can tell; none where it has to be looked closer.

    An average hides fragments among large files: whoever wants to know looks at the partitions.
    """
    if summary is None:
        return "nothing to do: the table has no snapshot"
    try:
        files, total = int(summary["total-data-files"]), int(summary["total-files-size"])
        deletes = int(summary["total-delete-files"])
    except (KeyError, ValueError):
        return None  # not every writer fills a summary
    if not files:
        return "nothing to do: the table has no data files"
    if deletes or total <= files * sizes.small:
        return None
    return (
        f"nothing to do by the summary of the snapshot: {number(files, 'file')}, {size(total / files)} on average, "
        f"against a target of {size(sizes.target)}, and no delete files; partitions were not looked at"
    )
