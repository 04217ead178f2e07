"""Decisions about windows: the records to keep and their adjusted counts, from as few columns as possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as f

from neve.lake.calendar import micros_of
from neve.lake.time_ranges import moment_of
from neve.reservoir.sampling.methods import Draw, hash_sql, make_salt, uniform_sql
from neve.reservoir.sampling.transform import weighted_sample
from neve.reservoir.tables.arrow_decide import GROUP, WINDOW, ArrowDecider, can_group
from neve.reservoir.tables.expressions import group_sql, invalid_weight_sql, key_sql, weight_sql
from neve.reservoir.windows import window_sql

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame

    from neve.lake.lake import Lake
    from neve.lake.time_ranges import Ranges
    from neve.reservoir.config import LakeSampling
    from neve.reservoir.tables.plan import Counts, Plan

DECIDED = (*GROUP, "record_id", "weight", "adjusted_count")
FILE = "_file"  # Iceberg's metadata column: the file that stores a row


def salt_for(config: LakeSampling, table: str) -> int:
    """Return the salt of a table's sampler.

    It needs no window or organization, because record ids differ between them.
    """
    return make_salt("reservoir-lake", config.name, table, config.policy)


@dataclass(frozen=True)
class Decider:
    """Decider about windows of one snapshot of a table."""

    lake: Lake
    config: LakeSampling
    table: str
    source: Table
    snapshot: int

    @property
    def arrow(self) -> ArrowDecider | None:
        """The decider with Arrow tasks, if it gives the same sample: by priority, of groups whose text is the same."""
        config = self.config
        if config.k is None or config.method != "priority" or not can_group(self.source.schema(), config.by):
            return None
        return ArrowDecider(self.lake.spark, config, self.source, self.snapshot, salt_for(config, self.table))

    def counts(self, time: Ranges, owner: str | None) -> tuple[Counts, Counts]:
        """Count the records of every window of a time range, and those that count as 1 because of an invalid weight."""
        if arrow := self.arrow:
            return arrow.count(time, owner)
        window = f"{window_sql('timestamp', self.config.micros)} AS sampling_window"
        wrong = invalid_weight_sql(self.config)
        rows = self._rows(time, owner).selectExpr("organization_id", window, f"{wrong or 'false'} AS wrong")
        found = rows.groupBy(*WINDOW).agg(f.count("*").alias("records"), f.count_if("wrong").alias("wrong")).collect()
        return (
            {(row.organization_id, row.sampling_window): row.records for row in found},
            {(row.organization_id, row.sampling_window): row.wrong for row in found if row.wrong},
        )

    def decide(self, plan: Plan) -> DataFrame:
        """Return `DECIDED` of the kept records; a duplicate record is one record."""
        rows = self._weigh(plan)
        if self.config.k is None:
            return _deduplicate(rows).selectExpr(*GROUP, "record_id", "weight", "weight AS adjusted_count")
        # The input of an exact total must have no duplicates from the start.
        return self._draw(_deduplicate(rows) if self.config.method == "exact_total" else rows)

    def decide_once(self, plan: Plan) -> DataFrame:
        """Decide without duplicates, if a duplicate record displaced another one."""
        return self._draw(_deduplicate(self._weigh(plan)))

    def count_kept(self, decided: DataFrame) -> tuple[Counts, bool]:
        """Return the number of kept records of every window, and whether a duplicate record displaced another one.

        Duplicates have the same priority: either both are in the sample, or the first item outside of it has the
        priority of the last one in it.
        """
        salt = salt_for(self.config, self.table)
        last = f"adjusted_count > weight AND weight / {uniform_sql(hash_sql(salt, 'record_id'))} = adjusted_count"
        counts = decided.groupBy(*WINDOW).agg(
            f.count("*").alias("kept"),
            f.expr("count(DISTINCT record_id)").alias("distinct"),
            f.expr(f"count_if({last})").alias("last"),
        )
        found = counts.collect()
        doubled = any(row.kept != row.distinct or (row["last"] and self.config.k) for row in found)
        return {(row.organization_id, row.sampling_window): row.kept for row in found}, doubled

    def locate(self, plan: Plan, decided: DataFrame) -> DataFrame:
        """Add the file of each record to decisions; one file if several store the record."""
        window = f"{window_sql('timestamp', self.config.micros)} AS sampling_window"
        places = self._within(plan).selectExpr("organization_id", window, "record_id", FILE)
        found = decided.join(places, [*WINDOW, "record_id"])
        return found.groupBy(*DECIDED).agg(f.min(FILE).alias(FILE))

    def _weigh(self, plan: Plan) -> DataFrame:
        config = self.config
        return self._within(plan).selectExpr(
            "organization_id",
            f"{window_sql('timestamp', config.micros)} AS sampling_window",
            f"{group_sql(self.source.schema(), config.by)} AS sampling_group",
            f"{key_sql()} AS record_id",
            f"{weight_sql(config)} AS weight",
        )

    def _draw(self, rows: DataFrame) -> DataFrame:
        config = self.config
        draw = Draw(
            by=GROUP,
            key="record_id",
            k=config.k or 1,
            salt=salt_for(config, self.table),
            weight="weight",
            method=config.method,
        )
        return weighted_sample(rows, draw).selectExpr(
            *GROUP, "key AS record_id", "weight", "adjusted_weight AS adjusted_count"
        )

    def _within(self, plan: Plan) -> DataFrame:
        """Return the rows of a plan's windows."""
        owners = {planned.owner for planned in plan.to_sample}
        rows = self._rows(plan.time(self.config.micros), owners.pop() if len(owners) == 1 else None)
        to_sample = [planned for planned in plan.to_sample if planned.records]
        names = pa.table(
            {
                "__owner": pa.array([planned.owner for planned in to_sample], pa.string()),
                "__start": pa.array([planned.start for planned in to_sample], pa.int64()),
            }
        )
        wanted = f.broadcast(self.lake.spark.createDataFrame(names))
        same = f"organization_id = __owner AND {window_sql('timestamp', self.config.micros)} = __start"
        return rows.join(wanted, f.expr(same), "left_semi")

    def _rows(self, time: Ranges, owner: str | None) -> DataFrame:
        """Return the rows of a time range, as Iceberg finds them by its statistics."""
        reader = self.lake.spark.read.option("versionAsOf", str(self.snapshot))
        rows = reader.table(self.lake.spark_name(self.table))
        edges = [tuple(micros_of(moment_of(edge)) for edge in one) for one in time]
        between = (
            f"(timestamp >= timestamp_micros({start}L) AND timestamp < timestamp_micros({end}L))"
            for start, end in edges
        )
        rows = rows.where(" OR ".join(between) or "false")
        return rows if owner is None else rows.where(f.col("organization_id") == owner)


def _deduplicate(rows: DataFrame) -> DataFrame:
    """Return every record once."""
    return rows.groupBy(*WINDOW, "record_id").agg(
        f.min("sampling_group").alias("sampling_group"), f.max("weight").alias("weight")
    )
