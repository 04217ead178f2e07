"""Lines and bytes of log streams by minute, in a scratch DuckDB.

The minutes of a stream and hour are one row. All minutes with files that came or went are counted again from the lines
that the table of logs has now, and replaced. So a run may be repeated, and lines that are deleted are subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.duckdb import quote_literal
from neve.lake.duckdb_sql import match_times, scan_tasks_sql
from neve.lake.follower import TableChange
from neve.lake.read.file_values import partition_values, read_time_bounds
from neve.lake.read.snapshot_files import filter_by_time, scan_files
from neve.lake.time_ranges import EVERYTHING, Ranges
from neve.lake.write.table_writer import Target, write_files
from neve.model.series_identity import STREAM_ATTRIBUTES
from neve.model.series_tables import LINE_TEXT, LINE_TIME, LOG_VOLUMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import duckdb
    import pyarrow as pa
    from pyiceberg.table import FileScanTask, Table

    from neve.lake.follower import FollowStep

MINUTE_MICROS, HOUR_MICROS, DAY_MICROS = 60_000_000, 3_600_000_000, 86_400_000_000
MINUTE_NANOS = MINUTE_MICROS * 1000
TIME_RANGES = 8  # of filters: planning takes longer with each range and file
COLUMNS = (
    *("organization_id", "timestamp", "time_unix_nano", "observed_time_unix_nano", "stream_id", "service_name"),
    *("resource_attrs", "message"),
)
_LABELS = ", ".join(quote_literal(name) for name in sorted(STREAM_ATTRIBUTES))
_KEEP_LABELS = f"map_from_entries(list_filter(map_entries(resource_attrs), one -> one.key IN ({_LABELS})))"
# Lines of older releases have no id: their labels identify the stream.
_STREAM = "stream_id, CASE WHEN stream_id IS NULL THEN service_name END, CASE WHEN stream_id IS NULL THEN {} END"
_NAMES = "any_value(service_name) AS service_name, any_value(resource_attrs) AS resource_attrs"
# ruff: noqa: S608 - statements are made of constants and quoted paths


@dataclass(frozen=True)
class VolumeUpdate:
    """Update of the volumes of streams from commits to `logs`."""

    connection: duckdb.DuckDBPyConnection
    step: FollowStep
    check: Callable[[], None] = lambda: None

    def replace_minutes(self) -> TableChange:
        """Return the change that replaces all minutes with files that came or went, a day at a time."""
        files, ranges = self.step.find_changed_times(MINUTE_MICROS, TIME_RANGES)
        change = TableChange(files=files)
        if not ranges:
            return change
        lines = scan_files(self.step.source, filter_by_time(ranges))
        hours = ranges if ranges == EVERYTHING else ranges.align(HOUR_MICROS)
        known = scan_files(self.step.target, filter_by_time(hours))
        change.removed = [task.file for task in known]
        for part in self._split_days(ranges, lines, known):
            self.check()
            day = part if part == EVERYTHING else part.align(DAY_MICROS)
            self._count_lines(_overlapping(self.step.source, lines, day), part)
            rows = self._merge(_overlapping(self.step.target, known, day), part, day)
            if rows.num_rows:
                change.added += write_files(Target.of(self.step.target), rows)
            change.rows += rows.num_rows
        change.partitions = len({partition_values(file) for file in change.added})
        return change

    def _split_days(
        self, ranges: Ranges, lines: Sequence[FileScanTask], known: Sequence[FileScanTask]
    ) -> Iterator[Ranges]:
        """Yield the times of each day with files, so that memory does not grow with days."""
        found: set[int] = set()
        for table, tasks in ((self.step.source, lines), (self.step.target, known)):
            for task in tasks:
                bounds = read_time_bounds(table, task.file)
                if bounds is None:
                    yield ranges
                    return
                found |= Ranges.of([(bounds[0], bounds[1] + 1)]).starts(DAY_MICROS)
        for start in sorted(found):
            if part := ranges.within(start, start + DAY_MICROS):
                yield part

    def _count_lines(self, tasks: Sequence[FileScanTask], ranges: Ranges) -> None:
        """Make the table of counted minutes."""
        counted = (
            f"SELECT organization_id, {LINE_TIME} // {MINUTE_NANOS} AS minute, stream_id, {_NAMES}, "
            f"count(*) AS lines, sum(strlen({LINE_TEXT})) AS bytes "
            f"FROM {scan_tasks_sql(self.step.source.schema(), tasks, COLUMNS)} "
            f"WHERE {match_times(ranges, LINE_TIME, 1000)} "
            f"GROUP BY organization_id, minute, {_STREAM.format(_KEEP_LABELS)}"
        )
        self.connection.execute(
            "CREATE OR REPLACE TABLE counted AS "
            f"SELECT * REPLACE ({_KEEP_LABELS} AS resource_attrs, CAST(bytes AS BIGINT) AS bytes) FROM ({counted})"
        )

    def _merge(self, tasks: Sequence[FileScanTask], ranges: Ranges, day: Ranges) -> pa.Table:
        """Return the rows of all files that are replaced: counted minutes, and others as they are."""
        schema = LOG_VOLUMES.schema
        minute = f"epoch_us(timestamp) // {MINUTE_MICROS} + one.minute"
        is_counted = match_times(ranges, f"({minute}) * {MINUTE_MICROS}")
        known = (
            f"SELECT organization_id, {minute} AS minute, stream_id, service_name, resource_attrs, one.lines, "
            "one.bytes "
            "FROM (SELECT organization_id, timestamp, stream_id, service_name, resource_attrs, unnest(minutes) AS one "
            f"FROM {scan_tasks_sql(self.step.target.schema(), tasks, schema.names)} "
            f"WHERE {match_times(day, 'epoch_us(timestamp)')}) WHERE NOT ({is_counted})"
        )
        found = self.connection.execute(
            "SELECT organization_id, make_timestamptz(minute // 60 * 3600000000) AS timestamp, stream_id, "
            f"{_NAMES}, CAST(sum(lines) AS BIGINT) AS lines, CAST(sum(bytes) AS BIGINT) AS bytes, "
            "list({'minute': CAST(minute % 60 AS INTEGER), 'lines': lines, 'bytes': bytes} ORDER BY minute) AS minutes "
            f"FROM (SELECT * FROM counted UNION ALL {known}) "
            f"GROUP BY organization_id, minute // 60, {_STREAM.format('resource_attrs')}"
        )
        return found.to_arrow_table().select(schema.names).cast(schema)


def _overlapping(table: Table, tasks: Iterable[FileScanTask], ranges: Ranges) -> list[FileScanTask]:
    """Return the files that may have rows of some times."""
    found = []
    for task in tasks:
        bounds = read_time_bounds(table, task.file)
        if bounds is None or ranges.overlaps(bounds[0], bounds[1] + 1):
            found.append(task)
    return found
