"""The plan is a value: which files become which, at what cost, and why; and what is left alone, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from neve.lake.partition_values import Value, key_of


class Level(StrEnum):
    """How much a rewrite does: fragments only, undersized files and deletes too, or everything."""

    MINOR = "minor"
    MAJOR = "major"
    FULL = "full"


class Executor(StrEnum):
    """Who rewrites a group."""

    ARROW = "arrow"
    SPARK = "spark"


@dataclass(frozen=True)
class Partition:
    """One partition of one partition spec; values as Iceberg writes single values in JSON."""

    spec_id: int
    values: tuple[Value, ...]
    label: str

    @property
    def key(self) -> str:
        """The partition's name among those of its table; people are told its label."""
        return key_of(self.spec_id, self.values)


@dataclass(frozen=True)
class InputFile:
    """A data file that a group reads, as the table's metadata has it."""

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
    """How rows lie in the outputs: as they came, sorted by columns, or along a z-order curve through them."""

    kind: Literal["keep", "sort", "zorder"] = "keep"
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(self.columns)})" if self.columns else self.kind


@dataclass(frozen=True)
class Estimate:
    """What a rewrite is expected to take and to leave."""

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
        """Whether delete files apply to any of the files."""
        return any(file.delete_files for file in self.files)


@dataclass(frozen=True)
class LeftAlone:
    """A partition that is not touched, and why."""

    partition: Partition
    files: int
    bytes: int
    health: float
    reason: str


@dataclass(frozen=True)
class Cut:
    """Work that was worth doing and that a limit left for another run."""

    partition: Partition
    files: int
    bytes: int
    limit: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """What one run is to do to one table, from the snapshot that it looked at.

    Metadata can't tell whether records are there twice: `check_duplicates` are the partitions to look through.
    `lays_out` are those whose files all have the layout when every one of their groups is published.
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
        """The snapshot that the groups are files of."""
        if self.snapshot_id is None:
            raise ValueError(f"plan {self.id} of {self.table} has groups of a table without a snapshot")
        return self.snapshot_id

    @property
    def partition_keys(self) -> set[str]:
        """The keys of all partitions that were looked at: each is rewritten, cut or left alone."""
        every: tuple[Group | LeftAlone | Cut, ...] = (*self.groups, *self.left_alone, *self.cut)
        return {one.partition.key for one in every}

    @property
    def estimate(self) -> Estimate:
        """All groups together, one after the other."""
        every = [group.estimate for group in self.groups]
        return Estimate(
            output_files=sum(one.output_files for one in every),
            output_bytes=sum(one.output_bytes for one in every),
            seconds=sum(one.seconds for one in every),
            api_calls=sum(one.api_calls for one in every),
            dollars=sum(one.dollars for one in every),
        )
