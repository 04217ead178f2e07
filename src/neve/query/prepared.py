"""A request, understood and planned: what is read, by which engine, and why."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.expressions import And

from neve.lake.duck import literal
from neve.lake.manifest_sources import readable
from neve.query.cache import Asked
from neve.query.engine.duckdb import DUCKDB
from neve.query.engine.spark import SPARK
from neve.query.rolled.route import route
from neve.query.scan.columns import named_columns
from neve.query.scan.owners import TENANT, check_snapshot, check_tenant
from neve.query.scan.reading import duckdb_source
from neve.query.scan.scans import scans_of
from neve.query.scan.times import TIME, within
from neve.query.scan.wording import asked_of
from neve.query.sql.identifiers import fold
from neve.query.sql.statement import marked
from neve.query.sql.translate import for_duckdb, for_spark
from neve.query.sql.written import Written, source_names
from neve.query.statistics import ScanStatistics, Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pyiceberg.table import Table

    from neve.query.config import QueryConfig
    from neve.query.engine.spark import SparkEngine
    from neve.query.loading import Look
    from neve.query.request import Request, TimeRange
    from neve.query.rolled.route import Coverage
    from neve.query.scan.files import FilePlan, Planner
    from neve.query.scan.scans import Scan
    from neve.query.sql.statement import Statement
    from neve.query.tables import LakeTables

    CoveragesOf = Callable[[Look, str], Sequence[Coverage]]


@dataclass(frozen=True)
class Prepared:
    """What is known of a request before anything is read; `tables` and `plans` are by the number of the scan."""

    request: Request
    statement: Statement
    tables: dict[int, Table]
    scans: dict[int, Scan]
    plans: dict[int, FilePlan]
    statistics: Statistics

    @property
    def asked(self) -> Asked | None:
        """What the result is kept under; none where it would be another one the next time."""
        if self.statement.volatile:
            return None
        versions = {plan.table: _version(self.tables[number], plan) for number, plan in self.plans.items()}
        time = self.request.time
        return Asked(
            self.request.organization,
            self.statement.normalised,
            tuple(sorted(versions.items())),
            (str(time.since), str(time.until)),
            self.request.limit,
        )

    def duckdb(self, root: str = "") -> Written:
        """The statement as DuckDB gets it, with its local files below a folder of links."""
        request = self.request
        known = {fold(field.name) for table in self.tables.values() for field in table.schema().fields}
        columns = named_columns(self.statement.tree, known)
        names = source_names(self.plans)
        sources = {
            names[number]: duckdb_source(
                self.tables[number], plan, request.organization, request.time, columns, root=root
            )
            for number, plan in self.plans.items()
        }
        text = for_duckdb(self.statement, {number: f'"{name}"' for number, name in names.items()})
        return Written(text, sources, self._files())

    def _files(self) -> tuple[str, ...]:
        """All files that the plans name, data and deletes."""
        planned = [file for plan in self.plans.values() for file in plan.files]
        return tuple({readable(path): None for file in planned for path in (file.path, *file.deletes)})

    def spark(self, engine: SparkEngine) -> str:
        """The statement as Spark gets it."""
        sources = {
            number: engine.source(plan.table, plan.snapshot, self._conditions(number))
            for number, plan in self.plans.items()
        }
        return for_spark(self.statement, sources)

    def _conditions(self, number: int) -> list[str]:
        table, plan = self.tables[number], self.plans[number]
        check_tenant(table.schema(), plan.table)
        check_snapshot(table, plan.snapshot)
        conditions = [f"{TENANT} = {literal(self.request.organization)}"]
        return conditions + (_bounds(self.request.time) if TIME in table.schema().column_names else [])


def _version(table: Table, plan: FilePlan) -> str:
    """What rows and columns a table has: columns can change without a new snapshot, and a new table can be empty."""
    return f"{table.metadata.table_uuid} {table.metadata.current_schema_id} {plan.snapshot}"


def _bounds(time: TimeRange) -> list[str]:
    sides = ((">=", time.since), ("<", time.until))
    return [f"{TIME} {how} TIMESTAMP {literal(at.isoformat())}" for how, at in sides if at is not None]


@dataclass(frozen=True)
class Sources:
    """What plans are made from: the lake's tables, their files, and what rollups cover."""

    tables: LakeTables
    planner: Planner
    coverages: CoveragesOf


def prepare(
    request: Request,
    statement: Statement,
    config: QueryConfig,
    sources: Sources,
    check: Callable[[], None] = lambda: None,
) -> Prepared:
    """Route to rollups, find the files, choose the engine.

    `check` is called between the steps; it raises when nobody waits for the answer any more.
    """
    began = time.monotonic()
    check()
    look = sources.tables.look()
    rollup = ""
    if "metrics" in statement.tables and statement.kind == "select":
        statement, rollup = route(statement, sources.coverages(look, request.organization), request.time)
    if statement.kind != "select":
        return Prepared(request, statement, {}, {}, {}, Statistics(engine="metadata", cache="off"))
    found = {name: look.table(name) for name in statement.tables}
    schemas = {name: table.schema() for name, table in found.items()}
    for name, schema in schemas.items():
        check_tenant(schema, name)
    check()
    scans = {scan.number: scan for scan in scans_of(statement, schemas)}
    of_number = {number: found[node.name] for number, node in marked(statement.tree).items()}
    plans: dict[int, FilePlan] = {}
    for number, table in of_number.items():
        check()
        plans[number] = sources.planner.plan(table, scans[number], request.organization, request.time)
    check()
    statistics = Statistics(
        scans=tuple(_told(of_number[number], plans[number], scans[number]) for number in sorted(plans)),
        rollup=rollup,
        notes=(f"answered from {rollup} where it has the time that is asked for",) if rollup else (),
    )
    engine, why = _engine(config, plans.values())
    statistics = replace(
        statistics,
        engine=engine,
        notes=(*statistics.notes, *why),
        planning_seconds=time.monotonic() - began,
    )
    return Prepared(request, statement, of_number, scans, plans, statistics)


def _told(table: Table, plan: FilePlan, scan: Scan) -> ScanStatistics:
    return ScanStatistics(
        table=plan.table,
        snapshot=plan.snapshot,
        files=len(plan.files),
        bytes=plan.bytes,
        pruned_files=plan.pruned_files,
        pruned_bytes=plan.pruned_bytes,
        predicate=asked_of(And(scan.predicate, within(table.schema(), plan.time)), scan.tokens),
    )


def _engine(config: QueryConfig, plans: Collection[FilePlan]) -> tuple[str, tuple[str, ...]]:
    """DuckDB, unless it can't read a table or would have to read too much."""
    reasons = [plan.only_spark for plan in plans if plan.only_spark]
    size = sum(plan.bytes for plan in plans)
    if not reasons and config.spark_bytes and size > config.spark_bytes:
        reasons.append(f"{size:,} bytes are to be read, more than query.spark_bytes ({config.spark_bytes:,})")
    return (SPARK, tuple(reasons)) if reasons else (DUCKDB, ())
