"""Health of partitions and tables, from 0 to 100, measured from metadata."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from neve.compact.plan import Partition
from neve.text import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from neve.lake.read.partition_stats import PartitionStats, TargetSizes


FILES = 12  # number of small files of a partition that counts as too many
EQUALITY_SHARE, POSITION_SHARE = 0.1, 0.2
SIZE_POINTS, EQUALITY_POINTS, POSITION_POINTS = 40, 40, 20


@dataclass(frozen=True)
class HealthParts:
    """Points of a partition or a table: at most 40 for file sizes, 40 for equality deletes, 20 for position deletes."""

    sizes: float = SIZE_POINTS
    equality_deletes: float = EQUALITY_POINTS
    position_deletes: float = POSITION_POINTS

    @property
    def score(self) -> float:
        """Health from 0 to 100."""
        return self.sizes + self.equality_deletes + self.position_deletes


def score_partition(stats: PartitionStats, sizes: TargetSizes) -> float:
    """Return the health of a partition."""
    return score_parts(stats, sizes).score


def score_parts(stats: PartitionStats, sizes: TargetSizes) -> HealthParts:
    """Return the parts of a partition's health.

    The formula is Amoro's with one exception. In Amoro, all problems count less in a partition that has few files or
    few bytes. Here this holds for deletes, which cost little in few bytes. Files cost by their number, and hundreds of
    tiny files are unhealthy.
    """
    if stats.files <= 1:
        return HealthParts()
    many = _capped_ratio(stats.files, FILES)
    weight = many * _capped_ratio(stats.bytes, sizes.small)
    rows = max(1, stats.rows)
    too_many = max(0.0, 1 - max(1.0, stats.bytes / sizes.small) / stats.files)
    equality = _capped_ratio(stats.deletes.equality_rows / rows, EQUALITY_SHARE)
    position = _capped_ratio(stats.deletes.position_rows / rows, POSITION_SHARE)
    return HealthParts(
        SIZE_POINTS * (1 - many * too_many),
        EQUALITY_POINTS * (1 - weight * equality),
        POSITION_POINTS * (1 - weight * position),
    )


def _capped_ratio(value: float, whole: float) -> float:
    return min(value, whole) / whole if whole else 1.0


def score_table(partitions: Iterable[tuple[PartitionStats, float]]) -> float:
    """Return the health of a table: the mean of its partitions, weighted by files, because files cause the cost."""
    weighed = [(stats.files, points) for stats, points in partitions]
    files = sum(count for count, _points in weighed)
    return sum(count * points for count, points in weighed) / files if files else 100.0


def check_summary(summary: Mapping[str, str] | None, sizes: TargetSizes) -> str | None:
    """Return why there is nothing to do according to a snapshot's summary, or nothing if it is inconclusive.

    An average hides fragments among large files. Only the partitions show them.
    """
    if summary is None:
        return "nothing to do: the table has no snapshot"
    try:
        files, total = int(summary["total-data-files"]), int(summary["total-files-size"])
        deletes = int(summary["total-delete-files"])
    except (KeyError, ValueError):
        return None  # not every writer writes a complete summary
    if not files:
        return "nothing to do: the table has no data files"
    if deletes or total <= files * sizes.small:
        return None
    return (
        f"nothing to do according to the snapshot summary: {format_count(files, 'file')}, "
        f"{format_bytes(total / files)} on average, "
        f"against a target of {format_bytes(sizes.target)}, and no delete files; partitions were not checked"
    )


@dataclass(frozen=True)
class Measure:
    """Measures of one partition against a target size."""

    stats: PartitionStats
    sizes: TargetSizes

    @cached_property
    def partition(self) -> Partition:
        """The measured partition."""
        return Partition(self.stats.spec_id, self.stats.values, self.stats.label)

    @cached_property
    def health(self) -> float:
        """Health from 0 to 100."""
        return self.parts.score

    @cached_property
    def parts(self) -> HealthParts:
        """The parts of its health."""
        return score_parts(self.stats, self.sizes)

    @property
    def average_bytes(self) -> float:
        """The average size of a data file."""
        return self.stats.bytes / self.stats.files if self.stats.files else 0.0

    @property
    def cold_files(self) -> int:
        """Number of files in the cold time range, which gets no new rows."""
        return self.stats.files - self.stats.hot.files

    @property
    def cold_bytes(self) -> int:
        """Bytes of the cold files."""
        return self.stats.bytes - self.stats.hot.bytes

    @property
    def facts(self) -> str:
        """The numbers at the beginning of every reason."""
        hot = self.stats.hot.files
        return (
            f"{format_count(self.stats.files, 'file')}, {format_bytes(self.average_bytes)} on average, "
            f"against a target of {format_bytes(self.sizes.target)}{f' ({hot:,} of them hot)' if hot else ''}"
        )


@dataclass(frozen=True)
class SnapshotStats:
    """Statistics of a table's snapshots."""

    snapshot_id: int | None = None
    sequence: int = 0
    snapshots: int = 0
    manifests: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None


@dataclass(frozen=True)
class TableHealth:
    """Health of a table against a target size, by partition."""

    table: str
    target_bytes: int
    snapshot: SnapshotStats
    partitions: tuple[Measure, ...]

    @cached_property
    def score(self) -> float:
        """Health from 0 to 100."""
        return score_table((measure.stats, measure.health) for measure in self.partitions)

    @property
    def parts(self) -> HealthParts:
        """The parts of its health: means of its partitions, weighted by files as the score is."""
        names = ("sizes", "equality_deletes", "position_deletes")
        means = [score_table((one.stats, getattr(one.parts, name)) for one in self.partitions) for name in names]
        return HealthParts(*means) if self.files else HealthParts()

    @property
    def files(self) -> int:
        """Number of data files."""
        return sum(measure.stats.files for measure in self.partitions)

    @property
    def bytes(self) -> int:
        """Bytes of data files."""
        return sum(measure.stats.bytes for measure in self.partitions)

    @property
    def rows(self) -> int:
        """Rows of data files, before deletes are applied."""
        return sum(measure.stats.rows for measure in self.partitions)

    @property
    def fragments(self) -> int:
        """Files of an eighth of the target or less."""
        return sum(measure.stats.fragments.files for measure in self.partitions)

    @property
    def undersized_files(self) -> int:
        """Files of up to three quarters of the target that are not fragments."""
        return sum(measure.stats.undersized.files for measure in self.partitions)

    @property
    def delete_files(self) -> int:
        """Delete files by partition. A file that applies to all partitions counts in each."""
        return sum(measure.stats.deletes.files for measure in self.partitions)
