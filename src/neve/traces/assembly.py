"""Summaries of traces from their spans, in a scratch DuckDB.

New spans name the traces that change. All spans of these traces are read again, however late some of them came, and
their rows replace those that the table has. A trace is found by its id within reach of its new spans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, And, GreaterThanOrEqual, In, LessThanOrEqual, Or, Reference
from pyiceberg.table import FileScanTask

from neve.lake.duckdb import to_duckdb_path
from neve.lake.duckdb_sql import scan_tasks_sql
from neve.lake.follower import TableChange
from neve.lake.read.file_values import partition_values
from neve.lake.read.snapshot_files import filter_by_time, scan_files
from neve.lake.time_ranges import Ranges
from neve.lake.write.table_writer import Target, write_files
from neve.model.critical_path import find_critical_paths
from neve.model.service_calls import SPAN_COLUMNS, write_calls
from neve.model.trace_tables import TRACE_SUMMARIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import duckdb
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.lake.follower import FollowStep
    from neve.traces.config import TracesConfig

MERGED_ROWS = 200_000  # rows of files that are rewritten together
HOUR_NANOS = 3_600_000_000_000
TIME_RANGES, CLOSED_GAP_MICROS = 8, 600_000_000  # of filters: planning takes longer with each range and file
COLUMNS = ("organization_id", *SPAN_COLUMNS, "operation_name", "start_time_unix_nano", "end_time_unix_nano")
_START = "coalesce(start_time_unix_nano, epoch_us(timestamp) * 1000)"
_STOP = f"greatest(coalesce(end_time_unix_nano, 0), {_START})"
_HAS_TRACE = "trace_id IS NOT NULL AND octet_length(trace_id) > 0"
_SAME = "{0}.organization_id = {1}.organization_id AND {0}.trace_id = {1}.trace_id"
_ERROR = 2
# ruff: noqa: S608 - statements are made of constants and quoted paths


@dataclass(frozen=True)
class TraceAssembly:
    """Assembly of the traces of some new files."""

    connection: duckdb.DuckDBPyConnection
    step: FollowStep
    config: TracesConfig
    check: Callable[[], None] = lambda: None

    def replace_traces(self, files: Sequence[DataFile]) -> TableChange:
        """Return the change of the table that makes it current for the traces of some new files."""
        change = TableChange(files=len(files))
        self._find_traces(files)
        ranges = self._find_ranges("touched")
        if not ranges:
            return change
        known = self._find_known(ranges)
        self.check()
        self._pick_spans(self._find_ranges("traces"))
        self.check()
        self._find_paths()
        new = self._summarize()
        change.removed = [one.file for one in known]
        for rows in self._merge(new, known):
            self.check()
            change.added += write_files(Target.of(self.step.target), rows)
        change.rows = new.num_rows
        change.partitions = len({partition_values(file) for file in change.added})
        return change

    def _run(self, name: str, statement: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} AS {statement}")

    def _find_traces(self, files: Sequence[DataFile]) -> None:
        """Make the table of traces with new spans, each with the time of these spans."""
        tasks = [FileScanTask(file) for file in files]
        columns = ("organization_id", "trace_id", "timestamp", "start_time_unix_nano", "end_time_unix_nano")
        self._run(
            "touched",
            f"SELECT organization_id, trace_id, min({_START}) AS since, max({_STOP}) AS until "
            f"FROM {self._scan(self.step.source, tasks, columns)} WHERE {_HAS_TRACE} GROUP BY ALL",
        )

    def _find_known(self, ranges: Ranges) -> list[FileScanTask]:
        """Make the table of the rows that are replaced, and widen the time of traces by them. Return their files."""
        reach = int(self.config.reach_hours * HOUR_NANOS)
        tasks = scan_files(self.step.target, And(self._owners("touched"), _overlap(ranges, reach)))
        columns = ("organization_id", "trace_id", "start_time_unix_nano", "end_time_unix_nano")
        self._run(
            "known",
            f"SELECT one.* FROM {self._scan(self.step.target, tasks, columns)} AS one "
            f"JOIN touched ON {_SAME.format('one', 'touched')} "
            f"AND one.end_time_unix_nano >= touched.since - {reach} "
            f"AND one.start_time_unix_nano <= touched.until + {reach}",
        )
        self._run(
            "traces",
            "SELECT touched.organization_id, touched.trace_id, "
            "least(any_value(since), min(start_time_unix_nano)) AS since, "
            "greatest(any_value(until), max(end_time_unix_nano)) AS until "
            f"FROM touched LEFT JOIN known ON {_SAME.format('touched', 'known')} GROUP BY ALL",
        )
        paths = {path for (path,) in self.connection.execute("SELECT DISTINCT filename FROM known").fetchall()}
        return [task for task in tasks if to_duckdb_path(task.file.file_path) in paths]

    def _pick_spans(self, ranges: Ranges) -> None:
        """Make the tables of all spans of the traces, of the parents among them, and of totals of traces.

        The place of a span is that in the order of traces and starts.
        """
        tasks = scan_files(self.step.source, And(self._owners("traces"), filter_by_time(ranges)))
        listed = ", ".join(name for name in COLUMNS if name != "parent_span_id")
        parent = "CASE WHEN octet_length(parent_span_id) > 0 THEN parent_span_id END AS parent_span_id"
        self._run(
            "picked",
            "SELECT row_number() OVER (ORDER BY organization_id, trace_id, began, span_id) - 1 AS place, * "
            f"FROM (SELECT {listed}, {parent}, {_START} AS began FROM {self._scan(self.step.source, tasks, COLUMNS)}) "
            f"AS spans SEMI JOIN traces ON {_SAME.format('spans', 'traces')} AND began BETWEEN since AND until",
        )
        self._run(
            "families",
            "SELECT child.place, parent.place AS parent FROM picked AS child LEFT JOIN ("
            "SELECT organization_id, trace_id, span_id, min(place) AS place FROM picked GROUP BY ALL"
            f") AS parent ON {_SAME.format('child', 'parent')} AND child.parent_span_id = parent.span_id",
        )
        self._run(
            "totals",
            "SELECT organization_id, trace_id, min(place) FILTER (WHERE parent_span_id IS NULL) AS root, "
            "coalesce(root, min(place) FILTER (WHERE parent IS NULL)) AS top, count(*) AS span_count, "
            f"count(*) FILTER (WHERE status_code = {_ERROR}) AS error_count, "
            "count(*) FILTER (WHERE parent_span_id IS NOT NULL AND parent IS NULL) AS missing_parents, "
            f"min(began) AS start, max({_STOP}) AS stop, max(began) AS last_start "
            "FROM picked JOIN families USING (place) GROUP BY organization_id, trace_id",
        )

    def _find_paths(self) -> None:
        """Make the table of the times of spans on the critical path of their trace, which begins at its root."""
        columns = self.connection.execute(
            "SELECT coalesce(parent, -1) AS parent, "
            f"coalesce(place = top AND span_count <= {self.config.critical_path_spans}, false) AS is_top, "
            f"began, {_STOP} AS stop FROM picked JOIN families USING (place) "
            "JOIN totals USING (organization_id, trace_id) ORDER BY place"
        ).fetchnumpy()
        places = np.arange(len(columns["began"]))
        parents = np.asarray(columns["parent"], np.int64)
        # Of several tops, one begins the path. The parent of another is itself, so that no path reaches it.
        above = np.where(np.asarray(columns["is_top"]), -1, np.where(parents < 0, places, parents))
        nanos = find_critical_paths(above, np.asarray(columns["began"]), np.asarray(columns["stop"]))
        self.connection.register("found_paths", pa.table({"place": places, "nanos": nanos}))
        self._run("paths", "SELECT place, nanos FROM found_paths")
        self.connection.unregister("found_paths")

    def _summarize(self) -> pa.Table:
        """Return the rows of the traces."""
        self._run(
            "services",
            "SELECT organization_id, trace_id, list({'service_name': service, 'spans': spans, 'errors': errors, "
            "'critical_path_nano': nanos} ORDER BY spans DESC, service) AS services FROM ("
            "SELECT organization_id, trace_id, coalesce(service_name, '') AS service, count(*) AS spans, "
            f"count(*) FILTER (WHERE status_code = {_ERROR}) AS errors, "
            f"CASE WHEN any_value(span_count) <= {self.config.critical_path_spans} "
            "THEN CAST(sum(nanos) AS BIGINT) END AS nanos "
            "FROM picked JOIN paths USING (place) JOIN totals USING (organization_id, trace_id) "
            "GROUP BY organization_id, trace_id, service) GROUP BY organization_id, trace_id",
        )
        self._run(
            "called",
            f"WITH {write_calls('picked', ('organization_id', 'trace_id'))} "
            "SELECT organization_id, trace_id, list({'minute': date_trunc('minute', began), 'client': client, "
            "'server': server, 'connection_type': connection, 'is_failed': failed, 'weight': weight, "
            "'client_ms': client_ms, 'server_ms': server_ms} ORDER BY began, client, server, connection) AS calls "
            "FROM edges GROUP BY organization_id, trace_id",
        )
        schema = TRACE_SUMMARIES.schema
        found = self.connection.execute(
            "SELECT organization_id, make_timestamptz(start // 1000) AS timestamp, trace_id, "
            "service_name AS root_service_name, operation_name AS root_operation_name, "
            "status_code AS root_status_code, "
            "(stop - start) / 1e6 AS duration_ms, span_count, error_count, missing_parents, "
            "start AS start_time_unix_nano, stop AS end_time_unix_nano, last_start AS last_start_unix_nano, "
            "services, calls FROM totals JOIN services USING (organization_id, trace_id) "
            "LEFT JOIN called USING (organization_id, trace_id) LEFT JOIN ("
            "SELECT place, service_name, operation_name, status_code FROM picked) AS roots ON roots.place = totals.root"
        )
        return found.to_arrow_table().select(schema.names).cast(schema)

    def _merge(self, new: pa.Table, known: Sequence[FileScanTask]) -> Iterator[pa.Table]:
        """Yield the rows to write: new ones, and those of replaced files that stay."""
        names = TRACE_SUMMARIES.schema.names
        waiting = [new]
        for tasks in _group_tasks(known):
            left = self.connection.execute(
                f"SELECT {', '.join(f'one.{name}' for name in names)} "
                f"FROM {self._scan(self.step.target, tasks, names)} AS one ANTI JOIN known "
                f"ON {_SAME.format('one', 'known')} AND one.start_time_unix_nano = known.start_time_unix_nano"
            )
            waiting.append(left.to_arrow_table().cast(TRACE_SUMMARIES.schema))
            yield pa.concat_tables(waiting)
            waiting = []
        if waiting and new.num_rows:
            yield new

    def _owners(self, table: str) -> Any:
        found = self.connection.execute(f"SELECT DISTINCT organization_id FROM {table}").fetchall()
        return In(term=Reference("organization_id"), literals={owner for (owner,) in found})

    def _find_ranges(self, table: str) -> Ranges:
        """Return the times of all traces of a table, in microseconds."""
        times = self.connection.execute(f"SELECT since // 1000, until // 1000 + 1 FROM {table} ORDER BY 1").fetchnumpy()
        starts, ends = (np.asarray(one, np.int64) for one in times.values())
        if not len(starts):
            return Ranges()
        latest = np.maximum.accumulate(ends)
        begins = np.flatnonzero(np.concatenate(([True], starts[1:] > latest[:-1])))
        closes = np.append(begins[1:], len(starts)) - 1
        found = Ranges.of(zip(starts[begins].tolist(), latest[closes].tolist(), strict=True))
        return found.close_gaps(CLOSED_GAP_MICROS).join_to(TIME_RANGES)

    @staticmethod
    def _scan(table: Table, tasks: Sequence[FileScanTask], names: Sequence[str]) -> str:
        return scan_tasks_sql(table.schema(), tasks, names)


def _overlap(ranges: Ranges, reach: int) -> Any:
    """Return the filter for traces that are within reach of some times."""
    found: Any = AlwaysFalse()
    for since, until in ranges:
        starts = LessThanOrEqual(term=Reference("start_time_unix_nano"), value=until * 1000 + reach)
        ends = GreaterThanOrEqual(term=Reference("end_time_unix_nano"), value=since * 1000 - reach)
        found = Or(found, And(starts, ends))
    return found


def _group_tasks(tasks: Sequence[FileScanTask]) -> Iterator[list[FileScanTask]]:
    """Yield files in groups of about `MERGED_ROWS` rows."""
    group: list[FileScanTask] = []
    for task in tasks:
        group.append(task)
        if sum(one.file.record_count for one in group) >= MERGED_ROWS:
            yield group
            group = []
    if group:
        yield group
