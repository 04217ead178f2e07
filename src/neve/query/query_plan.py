"""The plan of a query: the files that it reads, the engine that runs it, and the reason for that engine.

Plan a request, write it for an engine, drop files that can't be read where a partial result is allowed, and format
the plan for EXPLAIN. The results of SHOW TABLES and DESCRIBE are made here as well.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import And

from neve.lake.duckdb import quote_literal, to_duckdb_path
from neve.lake.read.positions import SourcePosition
from neve.model.commits import SERIES, TRACES
from neve.model.signals import SERIES_TABLES, TRACE_TABLES, VOLUME_TABLES
from neve.predicate.names import fold
from neve.query.cache import CacheKey
from neve.query.engine.duckdb import DUCKDB
from neve.query.engine.spark import SPARK
from neve.query.engine_errors import StorageUnavailable
from neve.query.planning.duckdb_source import duckdb_source, named_columns
from neve.query.planning.file_planner import TIME, time_predicate
from neve.query.planning.scans import find_scans, format_predicate
from neve.query.planning.tenancy import TENANT, check_snapshot, check_tenant
from neve.query.request import UTC_ZONE, ScanStatistics, Statistics
from neve.query.rollup_routing.router import route
from neve.query.runs import StoredRun
from neve.query.sql.catalog_tables import format_type
from neve.query.sql.duckdb_statement import DuckDBStatement, draw_source_names
from neve.query.sql.statement import find_lake_tables, write_for_duckdb, write_for_spark
from neve.query.table_versions import find_version_sequence, table_version
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from pyiceberg.table import Table

    from neve.query.config import QueryConfig
    from neve.query.engine.spark import SparkEngine
    from neve.query.planning.file_planner import FilePlan, FilePlanner, PlannedFile
    from neve.query.planning.scans import Scan
    from neve.query.request import Request, TimeRange
    from neve.query.rollup_routing.router import Coverage
    from neve.query.runs import Run
    from neve.query.sql.statement import Statement
    from neve.query.tables import CatalogView, LakeTables, TableFacts

    CoveragesOf = Callable[[CatalogView, str], Sequence[Coverage]]


@dataclass(frozen=True)
class QueryPlan:
    """Plan of a request before any data is read. `tables` and `plans` are by the number of the scan.

    `earlier_bytes` is the part of the bytes of its statistics that an earlier statement of the same query has read.
    """

    request: Request
    statement: Statement
    tables: dict[int, Table]
    scans: dict[int, Scan]
    plans: dict[int, FilePlan]
    statistics: Statistics
    earlier_bytes: int = 0

    @property
    def cache_key(self) -> CacheKey | None:
        """Return the cache key of the result, or `None` if the next execution could give another result."""
        if self.statement.volatile:
            return None
        versions = {plan.table: table_version(self.tables[number]) for number, plan in self.plans.items()}
        time = self.request.time
        return CacheKey(
            self.request.organization,
            f"{self.request.time_zone} {self._restriction}{self.statement.normalised_sql}",
            tuple(sorted(versions.items())),
            (str(time.since), str(time.until)),
            self.request.limit,
        )

    @property
    def _restriction(self) -> str:
        """Return what the request leaves out, for the key."""
        since = "".join(f"{name} since {version}: " for name, version in sorted(self.request.added_since.items()))
        return f"{'new files: ' * self.request.only_new_files}{since}"

    def after(self, earlier: Statistics) -> QueryPlan:
        """Return the plan with the statistics of an earlier statement of the same query."""
        statistics = replace(
            self.statistics,
            scans=(*earlier.scans, *self.statistics.scans),
            notes=(*earlier.notes, *self.statistics.notes),
            partial=earlier.partial or self.statistics.partial,
            planning_seconds=earlier.planning_seconds + self.statistics.planning_seconds,
        )
        return replace(self, statistics=statistics, earlier_bytes=earlier.bytes)

    def duckdb(self, root: str = "") -> DuckDBStatement:
        """Return the statement for DuckDB, with its local files below a folder of links."""
        request = self.request
        known = {fold(field.name) for table in self.tables.values() for field in table.schema().fields}
        columns = named_columns(self.statement.tree, known)
        names = draw_source_names(self.plans)
        sources = {
            names[number]: duckdb_source(
                self.tables[number], plan, request.organization, request.time, columns, root=root
            )
            for number, plan in self.plans.items()
        }
        text = write_for_duckdb(self.statement, {number: f'"{name}"' for number, name in names.items()})
        return DuckDBStatement(text, sources, self._files(), request.time_zone)

    def _files(self) -> tuple[str, ...]:
        """Return all files of the plans, data and deletes."""
        planned = [file for plan in self.plans.values() for file in plan.files]
        return tuple({to_duckdb_path(path): None for file in planned for path in (file.path, *file.deletes)})

    def spark(self, engine: SparkEngine) -> str:
        """Return the statement for Spark."""
        sources = {
            number: engine.source(plan.table, plan.snapshot, self._conditions(number))
            for number, plan in self.plans.items()
        }
        return write_for_spark(self.statement, sources)

    def _conditions(self, number: int) -> list[str]:
        table, plan = self.tables[number], self.plans[number]
        check_tenant(table.schema(), plan.table)
        check_snapshot(table, plan.snapshot)
        conditions = [f"{TENANT} = {quote_literal(self.request.organization)}"]
        return conditions + (_time_conditions(self.request.time) if TIME in table.schema().column_names else [])


def _time_conditions(time: TimeRange) -> list[str]:
    sides = ((">=", time.since), ("<", time.until))
    return [f"{TIME} {how} TIMESTAMP {quote_literal(at.isoformat())}" for how, at in sides if at is not None]


@dataclass(frozen=True)
class PlanSources:
    """Inputs of planning: the lake's tables, their files, and the coverage of rollups."""

    tables: LakeTables
    planner: FilePlanner
    coverages: CoveragesOf


def plan_query(
    request: Request,
    statement: Statement,
    config: QueryConfig,
    sources: PlanSources,
    check: Callable[[], None] = lambda: None,
    look: CatalogView | None = None,
) -> QueryPlan:
    """Route to rollups, find the files, and choose the engine.

    `check` is called between the steps. It raises if the query has been cancelled or has timed out. `look` is the view
    of the catalog, if another statement of the same query has read tables already.
    """
    began = time.monotonic()
    check()
    look = look or sources.tables.look()
    rollup = ""
    zone = request.time_zone
    is_whole = not request.only_new_files and not request.added_since  # rollups have the rows of all files
    if is_whole and zone == UTC_ZONE and statement.kind == "select" and "metrics" in statement.tables:
        statement, rollup = route(statement, sources.coverages(look, request.organization), request.time)
    if statement.kind != "select":
        return QueryPlan(request, statement, {}, {}, {}, Statistics(engine="metadata", cache="off"))
    found = {name: look.table(name) for name in statement.tables}
    schemas = {name: table.schema() for name, table in found.items()}
    for name, schema in schemas.items():
        check_tenant(schema, name)
    check()
    scans = {scan.number: scan for scan in find_scans(statement, schemas, zone)}
    of_number = {number: found[node.name] for number, node in find_lake_tables(statement.tree).items()}
    plans: dict[int, FilePlan] = {}
    for number, table in of_number.items():
        check()
        since = _find_first_sequence(table, look, request, statement)
        plans[number] = sources.planner.plan(table, scans[number], request.organization, request.time, since)
    check()
    statistics = Statistics(
        scans=tuple(_scan_statistics(of_number[number], plans[number], scans[number]) for number in sorted(plans)),
        rollup=rollup,
        notes=(f"uses {rollup} for the time ranges that it covers",) if rollup else (),
    )
    engine, why = _choose_engine(config, plans.values())
    statistics = replace(
        statistics,
        engine=engine,
        notes=(*statistics.notes, *why),
        planning_seconds=time.monotonic() - began,
    )
    return QueryPlan(request, statement, of_number, scans, plans, statistics)


def _find_first_sequence(table: Table, look: CatalogView, request: Request, statement: Statement) -> int:
    """Return the sequence number of commits whose files a request leaves out, and those of earlier ones; 0: none."""
    seen = find_seen_sequence(table, look, statement.tables) if request.only_new_files else 0
    version = request.added_since.get(table.name()[-1])
    return seen if version is None else max(seen, find_version_sequence(table, version))


def find_seen_sequence(table: Table, look: CatalogView, named: Collection[str] = ()) -> int:
    """Return the number of the newest commit that the table of a table's series, or traces, has seen; 0: none.

    In a statement that names the table of volumes, it is the newest commit that this table has seen.
    """
    name = table.name()[-1]
    is_volume = VOLUME_TABLES.get(name) in named
    for tables, stream in ((VOLUME_TABLES if is_volume else SERIES_TABLES, SERIES), (TRACE_TABLES, TRACES)):
        if name in tables:
            return SourcePosition.read_sequence(look.table(tables[name]), stream, table)
    return 0


def _scan_statistics(table: Table, plan: FilePlan, scan: Scan) -> ScanStatistics:
    return ScanStatistics(
        table=plan.table,
        snapshot=plan.snapshot,
        files=len(plan.files),
        bytes=plan.bytes,
        pruned_files=plan.pruned_files,
        pruned_bytes=plan.pruned_bytes,
        predicate=format_predicate(And(scan.predicate, time_predicate(table.schema(), plan.time)), scan.tokens),
    )


def _choose_engine(config: QueryConfig, plans: Collection[FilePlan]) -> tuple[str, tuple[str, ...]]:
    """Choose DuckDB, unless it can't read a table or would have to read too much."""
    reasons = [plan.only_spark for plan in plans if plan.only_spark]
    size = sum(plan.bytes for plan in plans)
    if not reasons and config.spark_bytes and size > config.spark_bytes:
        reasons.append(f"{size:,} bytes have to be read, more than query.spark_bytes ({config.spark_bytes:,})")
    return (SPARK, tuple(reasons)) if reasons else (DUCKDB, ())


PROBE_THREADS = 16


def drop_unreadable_files(prepared: QueryPlan) -> QueryPlan:
    """Return the plan without files that can't be opened. Raises `StorageUnavailable` if no file can be opened."""
    plans, lost = {}, 0
    for number, plan in prepared.plans.items():
        kept = _readable_files(prepared.tables[number], plan)
        lost += len(plan.files) - len(kept)
        plans[number] = replace(plan, files=kept, bytes=sum(file.bytes for file in kept))
    total = sum(len(plan.files) for plan in prepared.plans.values())
    if lost and lost == total:
        raise StorageUnavailable(
            f"none of {total} files can be read", hint="run `neve doctor` to see what is reachable"
        )
    if not lost:
        return prepared
    notes = (*prepared.statistics.notes, f"{lost} of {total} files can't be read; their rows are missing")
    return replace(prepared, plans=plans, statistics=replace(prepared.statistics, partial=True, notes=notes))


def _readable_files(table: Table, plan: FilePlan) -> tuple[PlannedFile, ...]:
    def opens(file: PlannedFile) -> bool:
        try:
            with table.io.new_input(file.path).open() as opened:
                opened.read(4)
        except OSError:
            return False
        return True

    with ThreadPoolExecutor(PROBE_THREADS) as threads:
        return tuple(file for file, good in zip(plan.files, threads.map(opens, plan.files), strict=True) if good)


def show_tables(names: Iterable[str]) -> pa.Table:
    """Return the result of SHOW TABLES."""
    return pa.table({"name": pa.array(list(names), pa.string())})


def describe_table(table: TableFacts, schema: pa.Schema) -> pa.Table:
    """Return the result of DESCRIBE: types have the names of SQL, as in `information_schema.columns`."""
    columns = table.columns
    types = {field.name: format_type(field.type) for field in schema}
    return pa.table(
        {
            "column_name": pa.array([column.name for column in columns], pa.string()),
            "column_type": pa.array([types.get(column.name, column.type) for column in columns], pa.string()),
            "null": pa.array(["NO" if column.required else "YES" for column in columns], pa.string()),
            "comment": pa.array([column.comment for column in columns], pa.string()),
        }
    )


def explain_plan(prepared: QueryPlan, measured: Sequence[str] = ()) -> pa.Table:
    """Return the result of EXPLAIN: the files, the engine and the reasons. With ANALYZE, also the measurements."""
    statistics = prepared.statistics
    lines = [f"engine: {statistics.engine}", *(f"because: {note}" for note in statistics.notes)]
    for scan in statistics.scans:
        lines += _format_scan(scan)
    lines.append(
        f"total: reads {_format_files(statistics.files, statistics.bytes)}, "
        f"skips {_format_files(statistics.pruned_files, statistics.pruned_bytes)}"
    )
    if prepared.statement.not_portable:
        lines.append(f"not for Spark: {prepared.statement.not_portable}")
    if prepared.statement.volatile:
        lines.append(f"not cached: {prepared.statement.volatile} differs in each run")
    lines.append(f"planned in {statistics.planning_seconds * 1000:.1f} ms")
    return pa.table({"plan": pa.array([*lines, *measured], pa.string())})


def _format_scan(scan: ScanStatistics) -> list[str]:
    return [
        f"{scan.table} at snapshot {scan.snapshot or 'none'}: {_format_files(scan.files, scan.bytes)}, "
        f"{_format_files(scan.pruned_files, scan.pruned_bytes)} pruned",
        f"  by {scan.predicate}" if scan.predicate else "  no condition that prunes files",
    ]


def _format_files(files: int, size: int) -> str:
    return f"{format_count(files, 'file')} of {format_count(size, 'byte')}"


class MeasuredRun(StoredRun):
    """Run of EXPLAIN ANALYZE: counts the rows of another run and drops them. It can be interrupted as any other."""

    def __init__(self, prepared: QueryPlan, run: Run) -> None:
        super().__init__(explain_plan(prepared))
        self._prepared = prepared
        self._run = run

    def begin(self) -> None:
        """Run the statement to its end."""
        began = time.monotonic()
        self._run.begin()
        rows = sum(batch.num_rows for batch in self._run.batches())
        took = f"ran in {(time.monotonic() - began) * 1000:.1f} ms, {format_count(rows, 'row')}"
        self._table = explain_plan(self._prepared, [took])

    def interrupt(self) -> None:
        """Interrupt the statement, from any thread."""
        self._run.interrupt()

    def close(self) -> None:
        """Release resources."""
        self._run.close()
