"""What is measured of a partition, and of a table: counts from metadata, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from neve.compact.health import health, table_health
from neve.compact.plan import Partition
from neve.compact.words import number, size

if TYPE_CHECKING:
    from datetime import datetime

    from neve.lake.partition_stats import PartitionStats
    from neve.lake.target_sizes import TargetSizes


@dataclass(frozen=True)
class Measure:
    """One partition against a target size."""

    stats: PartitionStats
    sizes: TargetSizes

    @cached_property
    def partition(self) -> Partition:
        """Which partition it is."""
        return Partition(self.stats.spec_id, self.stats.values, self.stats.label)

    @cached_property
    def health(self) -> float:
        """From 0 to 100."""
        return health(self.stats, self.sizes)

    @property
    def average_bytes(self) -> float:
        """The average size of a data file."""
        return self.stats.bytes / self.stats.files if self.stats.files else 0.0

    @property
    def delete_file_ratio(self) -> float:
        """Delete files for each data file."""
        return self.stats.deletes.files / self.stats.files if self.stats.files else 0.0

    @property
    def deleted_row_ratio(self) -> float:
        """Rows in delete files of all kinds for each row of data."""
        deletes = self.stats.deletes
        return (deletes.position_rows + deletes.equality_rows) / self.stats.rows if self.stats.rows else 0.0

    @property
    def fragment_ratio(self) -> float:
        """The share of files that are fragments."""
        return self.stats.fragments.files / self.stats.files if self.stats.files else 0.0

    @property
    def undersized_ratio(self) -> float:
        """The share of files that are undersized."""
        return self.stats.undersized.files / self.stats.files if self.stats.files else 0.0

    @property
    def cold_files(self) -> int:
        """Files that nobody adds to any more."""
        return self.stats.files - self.stats.hot.files

    @property
    def cold_bytes(self) -> int:
        """Bytes of the files that nobody adds to any more."""
        return self.stats.bytes - self.stats.hot.bytes

    @property
    def facts(self) -> str:
        """The numbers that every reason begins with."""
        hot = self.stats.hot.files
        return (
            f"{number(self.stats.files, 'file')}, {size(self.average_bytes)} on average, against a target of "
            f"{size(self.sizes.target)}{f' ({hot:,} of them hot)' if hot else ''}"
        )


@dataclass(frozen=True)
class SnapshotStats:
    """The history that a table keeps."""

    snapshot_id: int | None = None
    sequence: int = 0
    snapshots: int = 0
    manifests: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None


@dataclass(frozen=True)
class TableHealth:
    """A table against a target size, partition by partition."""

    table: str
    target_bytes: int
    snapshot: SnapshotStats
    partitions: tuple[Measure, ...]

    @cached_property
    def score(self) -> float:
        """From 0 to 100."""
        return table_health((measure.stats, measure.health) for measure in self.partitions)

    @property
    def files(self) -> int:
        """Data files."""
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
    def undersized(self) -> int:
        """Files of up to three quarters of the target that are no fragments."""
        return sum(measure.stats.undersized.files for measure in self.partitions)

    @property
    def delete_files(self) -> int:
        """Delete files by partition; one that applies to all partitions counts in each."""
        return sum(measure.stats.deletes.files for measure in self.partitions)
