"""Statistics of one partition from the metadata: its values and label, and counts of its files by size and deletes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

import xxhash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckdb.sqltypes import DuckDBPyType


@dataclass(frozen=True)
class TargetSizes:
    """Size thresholds of fragments, undersized, good and oversized files for a target size."""

    target: int

    @property
    def fragment(self) -> int:
        """The largest fragment.

        >>> TargetSizes(128).fragment
        16
        """
        return self.target // 8

    @property
    def small(self) -> int:
        """The largest undersized file."""
        return self.target * 3 // 4

    @property
    def large(self) -> int:
        """The largest file that is not split."""
        return self.target * 9 // 5

    @property
    def max_output(self) -> int:
        """The size that an output may have to avoid one more output: a tenth above the target."""
        return self.target * 11 // 10

    def outputs(self, size: int) -> int:
        """Return the number of files that this many bytes become.

        >>> [TargetSizes(100).outputs(size) for size in (0, 99, 109, 120, 180, 330)]
        [1, 1, 1, 2, 2, 4]
        """
        if size < self.target:
            return 1
        whole, rest = divmod(size, self.target)
        if rest <= self.small and size < whole * self.max_output:
            return whole
        return whole + (1 if rest else 0)


PartitionValue = str | int | float | bool | None

PARTITION_FIELD = "data_file.partition"
_VALUE_SQL = {
    "date": "{}::VARCHAR",
    "time": "{}::VARCHAR",
    "timestamp": "strftime({}, '%Y-%m-%dT%H:%M:%S.%f')",
    "timestamp_ns": "strftime({}, '%Y-%m-%dT%H:%M:%S.%n')",
    "timestamp with time zone": "strftime({}, '%Y-%m-%dT%H:%M:%S.%f+00:00')",
    "decimal": "{}::VARCHAR",
    "uuid": "{}::VARCHAR",
    "blob": "lower(hex({}))",
}


def partition_values_sql(kinds: Sequence[DuckDBPyType]) -> str:
    """Return the SQL for the JSON list of a file's partition values, from their types in the manifest."""
    values = (
        _VALUE_SQL.get(kind.id, "{}").format(f"struct_extract_at({PARTITION_FIELD}, {position})")
        for position, kind in enumerate(kinds, start=1)
    )
    return f"json_array({', '.join(values)})::VARCHAR"


def parse_partition_values(text: str) -> tuple[PartitionValue, ...]:
    """Parse such a list."""
    return tuple(json.loads(text))


def make_partition_id(spec_id: int, values: Sequence[PartitionValue]) -> str:
    """Return an id of a partition within its table: short, and different for NULL and 'null'.

    >>> make_partition_id(0, ["null"]) == make_partition_id(0, [None]), len(make_partition_id(7, ["a" * 5000]))
    (False, 34)
    """
    return f"{spec_id}:{xxhash.xxh3_128_hexdigest(json.dumps(list(values)).encode())}"


def format_partition(names: Sequence[str], values: Sequence[PartitionValue]) -> str:
    """Format a partition like the folder of its files in most writers.

    >>> format_partition(("organization_id", "day"), ("a/b", None))
    'organization_id=a%2Fb/day=null'
    """
    return "/".join(f"{quote(name, safe='')}={_format_value(value)}" for name, value in zip(names, values, strict=True))


def _format_value(value: PartitionValue) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else quote(str(value), safe=":+,-. ")


PartitionId = tuple[int, str]


@dataclass(frozen=True)
class FileCriteria:
    """Criteria to classify files when they are counted.

    A file is hot if its newest record is not older than `hot_from_us`. It exceeds the delete limits if at least
    `delete_files` position-delete files apply to it, or if more than `delete_ratio` of its rows are known to be
    deleted. It is laid out if it has `sort_order_id`, or if it is not newer than the entry of its partition in
    `laid_out`. Without `wants_layout` every file counts as laid out.
    """

    sizes: TargetSizes
    hot_from_us: int | None = None
    delete_files: int = 2
    delete_ratio: float = 0.1
    wants_layout: bool = False
    sort_order_id: int | None = None
    laid_out: Mapping[PartitionId, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FileTotals:
    """Number and bytes of some files."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class DeleteCounts:
    """Counts of the delete files of a partition; `live` ones apply to a data file that is not hot."""

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
        """The number of delete files of all kinds."""
        return self.position_files + self.equality_files + self.vectors


@dataclass(frozen=True)
class PartitionStats:
    """Counts of one partition: of all its files, and by class of the files that are not hot.

    `text` is the partition's text in the index; `smallest` are the sizes of its two smallest undersized files.
    """

    spec_id: int
    values: tuple[PartitionValue, ...]
    label: str
    text: str = "[]"
    files: int = 0
    bytes: int = 0
    rows: int = 0
    hot: FileTotals = FileTotals()
    fragments: FileTotals = FileTotals()
    undersized: FileTotals = FileTotals()
    oversized: FileTotals = FileTotals()
    smallest: tuple[int, ...] = ()
    unlaid: FileTotals = FileTotals()
    over_deletes: FileTotals = FileTotals()
    with_positions: FileTotals = FileTotals()
    with_position_rows: int = 0
    with_equality: FileTotals = FileTotals()
    with_equality_rows: int = 0
    oldest_sequence: int = 0
    newest_sequence: int = 0
    time_low: int | None = None
    time_high: int | None = None
    deletes: DeleteCounts = DeleteCounts()
