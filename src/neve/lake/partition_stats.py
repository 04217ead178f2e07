"""What the metadata says of one partition, as plain numbers, and what has to be known to count them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.lake.partition_values import Value
    from neve.lake.target_sizes import TargetSizes

PartitionId = tuple[int, str]


@dataclass(frozen=True)
class Question:
    """How files are told apart when they are counted.

    A file is hot when its newest record is not older than `hot_from_us`. It is over its deletes when at least
    `delete_files` position-delete files apply to it, or more than `delete_ratio` of its rows are known to be deleted.
    It is laid out when it has `sort_order_id`, or when it is not newer than what `laid_out` says of its partition;
    without `wants_layout` every file is.
    """

    sizes: TargetSizes
    hot_from_us: int | None = None
    delete_files: int = 2
    delete_ratio: float = 0.1
    wants_layout: bool = False
    sort_order_id: int | None = None
    laid_out: Mapping[PartitionId, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Share:
    """Some files: how many, and their bytes."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class DeleteCounts:
    """The delete files of a partition; `live` ones apply to a data file that is not hot."""

    position_files: int = 0
    position_rows: int = 0
    equality_files: int = 0
    equality_rows: int = 0
    vectors: int = 0
    bytes: int = 0
    live_position_rows: int = 0
    live_equality_files: int = 0
    live_equality_rows: int = 0
    dangling: int = 0

    @property
    def files(self) -> int:
        """Delete files of all kinds."""
        return self.position_files + self.equality_files + self.vectors


@dataclass(frozen=True)
class PartitionStats:
    """Counts of one partition: of all its files, and by what they are of those that are not hot.

    `text` is what the index calls the partition; `smallest` are the sizes of its two smallest undersized files.
    """

    spec_id: int
    values: tuple[Value, ...]
    label: str
    text: str = "[]"
    files: int = 0
    bytes: int = 0
    rows: int = 0
    hot: Share = Share()
    fragments: Share = Share()
    undersized: Share = Share()
    oversized: Share = Share()
    smallest: tuple[int, ...] = ()
    unlaid: Share = Share()
    over_deletes: Share = Share()
    with_positions: Share = Share()
    with_position_rows: int = 0
    with_equality: Share = Share()
    with_equality_rows: int = 0
    oldest_sequence: int = 0
    newest_sequence: int = 0
    time_low: int | None = None
    time_high: int | None = None
    deletes: DeleteCounts = DeleteCounts()
