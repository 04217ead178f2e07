"""The service map by minute, from the calls in trace summaries.

A row counts the calls of one edge in one minute, of the traces that began in one minute. So the rows of a trace minute
depend on the traces of that minute alone, and are replaced when one of these traces changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.lake.duckdb_sql import match_times, scan_tasks_sql
from neve.lake.follower import TableChange
from neve.lake.read.file_values import partition_values
from neve.lake.read.snapshot_files import filter_by_time, scan_files
from neve.lake.write.table_writer import Target, write_files
from neve.model.trace_tables import BUCKET_SCALE, LOWEST_BUCKET, SERVICE_EDGES

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

    from neve.lake.follower import FollowStep
    from neve.lake.time_ranges import Ranges

MINUTE_MICROS = 60_000_000
TIME_RANGES = 8  # of filters: planning takes longer with each range and file
_KEYS = "organization_id, timestamp, trace_minute, client, server, connection_type"
# ruff: noqa: S608 - statements are made of constants and quoted paths


@dataclass(frozen=True)
class EdgeUpdate:
    """Update of the service map from commits to trace summaries."""

    connection: duckdb.DuckDBPyConnection
    step: FollowStep
    check: Callable[[], None] = lambda: None

    def replace_minutes(self) -> TableChange:
        """Return the change that replaces the rows of all trace minutes that changed."""
        files, ranges = self.step.find_changed_times(MINUTE_MICROS, TIME_RANGES)
        change = TableChange(files=files)
        if not ranges:
            return change
        new = self._count_calls(ranges)
        self.check()
        tasks = scan_files(self.step.target, filter_by_time(ranges, "trace_minute"))
        names = SERVICE_EDGES.schema.names
        left = self.connection.execute(
            f"SELECT {', '.join(names)} FROM {scan_tasks_sql(self.step.target.schema(), tasks, names)} "
            f"WHERE NOT ({match_times(ranges, 'epoch_us(trace_minute)')})"
        )
        rows = pa.concat_tables([left.to_arrow_table().cast(SERVICE_EDGES.schema), new])
        change.removed = [task.file for task in tasks]
        if rows.num_rows:
            change.added = write_files(Target.of(self.step.target), rows)
        change.rows = new.num_rows
        change.partitions = len({partition_values(file) for file in change.added})
        return change

    def _count_calls(self, ranges: Ranges) -> pa.Table:
        """Return the rows of the traces that began in some minutes."""
        tasks = scan_files(self.step.source, filter_by_time(ranges))
        spread = scan_tasks_sql(self.step.source.schema(), tasks, ("organization_id", "timestamp", "calls"))
        self.connection.execute(
            "CREATE OR REPLACE TABLE calls AS SELECT organization_id, call.minute AS timestamp, trace_minute, "
            "call.client, call.server, call.connection_type, call.is_failed, call.weight, "
            f"{_write_seconds('client')} AS client_seconds, {_write_seconds('server')} AS server_seconds "
            "FROM (SELECT organization_id, date_trunc('minute', timestamp) AS trace_minute, unnest(calls) AS call "
            f"FROM {spread} WHERE {match_times(ranges, 'epoch_us(timestamp)')})"
        )
        found = self.connection.execute(
            f"SELECT {_KEYS}, calls, errors, estimated_calls, estimated_errors, server_seconds, client_seconds, "
            "server_buckets, client_buckets FROM ("
            f"SELECT {_KEYS}, count(*) AS calls, count(*) FILTER (WHERE is_failed) AS errors, "
            "sum(weight) AS estimated_calls, coalesce(sum(weight) FILTER (WHERE is_failed), 0.0) AS estimated_errors, "
            "sum(server_seconds * weight) AS server_seconds, sum(client_seconds * weight) AS client_seconds "
            f"FROM calls GROUP BY ALL) LEFT JOIN {_write_buckets('server')} USING ({_KEYS}) "
            f"LEFT JOIN {_write_buckets('client')} USING ({_KEYS})"
        )
        return found.to_arrow_table().cast(SERVICE_EDGES.schema)


def _write_seconds(side: str) -> str:
    # DuckDB's greatest() ignores nulls, but a latency that is not known is not zero.
    return f"CASE WHEN call.{side}_ms > 0 THEN call.{side}_ms / 1000 WHEN call.{side}_ms <= 0 THEN 0.0 END"


def _write_buckets(side: str) -> str:
    """Return the subquery of the histograms of one side, by edge and minute."""
    index = f"CAST(ceil(log2({side}_seconds) * {1 << BUCKET_SCALE}) AS INTEGER) - 1"
    bucket = (
        f"CASE WHEN {side}_seconds > 0 THEN greatest({index}, {LOWEST_BUCKET}) "
        f"WHEN {side}_seconds IS NOT NULL THEN {LOWEST_BUCKET} END"
    )
    return (
        f"(SELECT {_KEYS}, map_from_entries(list((bucket, weight) ORDER BY bucket)) AS {side}_buckets FROM ("
        f"SELECT {_KEYS}, {bucket} AS bucket, sum(weight) AS weight FROM calls GROUP BY ALL) "
        f"WHERE bucket IS NOT NULL GROUP BY {_KEYS})"
    )
