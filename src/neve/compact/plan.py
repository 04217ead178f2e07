"""The plan as a value: groups of files to rewrite, their cost and reason, and partitions that are skipped or cut."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from neve.lake.read.partition_stats import PartitionValue, make_partition_id


class Level(StrEnum):
    """Scope of a rewrite: fragments only, undersized files and deletes too, or everything."""

    MINOR = "minor"
    MAJOR = "major"
    FULL = "full"


class Executor(StrEnum):
    """Executor of a group."""

    ARROW = "arrow"
    SPARK = "spark"


@dataclass(frozen=True)
class Request:
    """Options of one run that override the configuration."""

    strategy: str | None = None
    target_bytes: int | None = None
    level: str | None = None
    partitions: str | None = None
    thorough: bool = False


@dataclass(frozen=True)
class Partition:
    """One partition of one partition spec, with values in Iceberg's JSON single-value form."""

    spec_id: int
    values: tuple[PartitionValue, ...]
    label: str

    @property
    def key(self) -> str:
        """Unique name of the partition in its table. Users see its label."""
        return make_partition_id(self.spec_id, self.values)


@dataclass(frozen=True)
class InputFile:
    """A data file that a group reads, with its properties in the table's metadata."""

    path: str
    bytes: int
    rows: int
    sequence: int
    format: str = "parquet"
    sort_order_id: int | None = None
    delete_files: int = 0
    deleted_rows: int = 0


@dataclass(frozen=True)
class Layout:
    """Order of rows in the outputs: unchanged, sorted by columns, or along a z-order curve through them."""

    kind: Literal["keep", "sort", "zorder"] = "keep"
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(self.columns)})" if self.columns else self.kind


@dataclass(frozen=True)
class Estimate:
    """Expected cost and output of a rewrite."""

    output_files: int
    output_bytes: int
    seconds: float
    api_calls: int
    dollars: float


@dataclass(frozen=True)
class Group:
    """Files of one partition that are rewritten together, in one task, and published together."""

    id: str
    partition: Partition
    files: tuple[InputFile, ...]
    level: Level
    strategy: str
    layout: Layout
    executor: Executor
    executor_reason: str
    reason: str
    estimate: Estimate
    deduplicate: bool = False

    @property
    def bytes(self) -> int:
        """Bytes to read."""
        return sum(file.bytes for file in self.files)

    @property
    def rows(self) -> int:
        """Rows in the files, before deletes are applied."""
        return sum(file.rows for file in self.files)

    @property
    def has_deletes(self) -> bool:
        """True if delete files apply to any of the files."""
        return any(file.delete_files for file in self.files)


@dataclass(frozen=True)
class LeftAlone:
    """A partition that is not rewritten, and the reason."""

    partition: Partition
    files: int
    bytes: int
    health: float
    reason: str


@dataclass(frozen=True)
class Cut:
    """Worthwhile work that a limit postponed to another run."""

    partition: Partition
    files: int
    bytes: int
    limit: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """Work of one run on one table, based on the snapshot that was read.

    Metadata does not show duplicate records: `check_duplicates` are the partitions to search. `lays_out` are those
    whose files all have the layout after all of their groups are published.
    """

    id: str
    table: str
    snapshot_id: int | None
    sequence: int
    strategy: str
    target_bytes: int
    reason: str
    health: float
    files: int
    bytes: int
    delete_files: int
    groups: tuple[Group, ...] = ()
    left_alone: tuple[LeftAlone, ...] = ()
    cut: tuple[Cut, ...] = ()
    check_duplicates: tuple[Partition, ...] = ()
    lays_out: tuple[Partition, ...] = ()

    @property
    def start(self) -> int:
        """The snapshot that contains the files of the groups."""
        if self.snapshot_id is None:
            raise ValueError(f"plan {self.id} of {self.table} has groups of a table without a snapshot")
        return self.snapshot_id

    @property
    def partition_keys(self) -> set[str]:
        """Keys of all partitions that were checked. Each is rewritten, cut or skipped."""
        every: tuple[Group | LeftAlone | Cut, ...] = (*self.groups, *self.left_alone, *self.cut)
        return {one.partition.key for one in every}

    @property
    def estimate(self) -> Estimate:
        """Sum of all groups, one after the other."""
        every = [group.estimate for group in self.groups]
        return Estimate(
            output_files=sum(one.output_files for one in every),
            output_bytes=sum(one.output_bytes for one in every),
            seconds=sum(one.seconds for one in every),
            api_calls=sum(one.api_calls for one in every),
            dollars=sum(one.dollars for one in every),
        )
