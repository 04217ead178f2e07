"""Decisions about windows: which records are kept, and what each stands for, from the columns that tell it alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as f

from neve.reservoir.chance import hash_sql, salt_of, uniform_sql
from neve.reservoir.draw import Draw
from neve.reservoir.lake.groups import group_sql
from neve.reservoir.lake.weights import key_sql, weight_sql, wrong_sql
from neve.reservoir.lake.windows import micros_of, moment_of, window_sql
from neve.reservoir.transform import weighted_sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyspark.sql import DataFrame

    from neve.lake.lake import Lake
    from neve.reservoir.lake.config import LakeSampling
    from neve.reservoir.lake.plan import Counts, Plan
    from neve.reservoir.lake.windows import Range

WINDOW = ("organization_id", "sampling_window")
GROUP = (*WINDOW, "sampling_group")
DECIDED = (*GROUP, "record_id", "weight", "adjusted_count")
FILE = "_file"  # Iceberg's own column: the file that a row lies in


def salt_for(config: LakeSampling, table: str) -> int:
    """The salt of the stage that a sampler of a table is; a record's id is another in every window and organization."""
    return salt_of("reservoir-lake", config.name, table, config.policy)


@dataclass(frozen=True)
class Decider:
    """Decides about windows of one snapshot of a table."""

    lake: Lake
    config: LakeSampling
    table: str
    source: Table
    snapshot: int

    def counts(self, time: Sequence[Range], owner: str | None) -> tuple[Counts, Counts]:
        """How many records every window of some time has, and how many of them count as 1 for a bad weight."""
        window = f"{window_sql('timestamp', self.config.micros)} AS sampling_window"
        wrong = wrong_sql(self.config)
        rows = self._rows(time, owner).selectExpr("organization_id", window, f"{wrong or 'false'} AS wrong")
        found = rows.groupBy(*WINDOW).agg(f.count("*").alias("records"), f.count_if("wrong").alias("wrong")).collect()
        return (
            {(row.organization_id, row.sampling_window): row.records for row in found},
            {(row.organization_id, row.sampling_window): row.wrong for row in found if row.wrong},
        )

    def decide(self, plan: Plan) -> DataFrame:
        """`DECIDED` of the records that are kept; a record that is there twice is one record."""
        rows = self._weighed(plan)
        if self.config.k is None:
            return _once(rows).selectExpr(*GROUP, "record_id", "weight", "weight AS adjusted_count")
        # What an exact total adds up must be right from the start.
        return self._drawn(_once(rows) if self.config.method == "exact_total" else rows)

    def decide_once(self, plan: Plan) -> DataFrame:
        """The same where a record that is there twice took the place of another."""
        return self._drawn(_once(self._weighed(plan)))

    def kept(self, decided: DataFrame) -> tuple[Counts, bool]:
        """How many records are kept of every window, and whether one that is there twice took another's place.

        Two of the same have the same priority: both are in the sample, or the first that is not has that of the last
        that is.
        """
        salt = salt_for(self.config, self.table)
        last = f"adjusted_count > weight AND weight / {uniform_sql(hash_sql(salt, 'record_id'))} = adjusted_count"
        told = decided.groupBy(*WINDOW).agg(
            f.count("*").alias("kept"),
            f.expr("count(DISTINCT record_id)").alias("distinct"),
            f.expr(f"count_if({last})").alias("last"),
        )
        found = told.collect()
        doubled = any(row.kept != row.distinct or (row["last"] and self.config.k) for row in found)
        return {(row.organization_id, row.sampling_window): row.kept for row in found}, doubled

    def placed(self, plan: Plan, decided: DataFrame) -> DataFrame:
        """Decisions with the file that the record lies in; one of them where it lies in several."""
        window = f"{window_sql('timestamp', self.config.micros)} AS sampling_window"
        places = self._within(plan).selectExpr("organization_id", window, "record_id", FILE)
        found = decided.join(places, [*WINDOW, "record_id"])
        return found.groupBy(*DECIDED).agg(f.min(FILE).alias(FILE))

    def _weighed(self, plan: Plan) -> DataFrame:
        config = self.config
        return self._within(plan).selectExpr(
            "organization_id",
            f"{window_sql('timestamp', config.micros)} AS sampling_window",
            f"{group_sql(self.source.schema(), config.by)} AS sampling_group",
            f"{key_sql()} AS record_id",
            f"{weight_sql(config)} AS weight",
        )

    def _drawn(self, rows: DataFrame) -> DataFrame:
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
        """The rows of a plan's windows."""
        owners = {turn.owner for turn in plan.turns}
        rows = self._rows(plan.time(self.config.micros), owners.pop() if len(owners) == 1 else None)
        turns = [turn for turn in plan.turns if turn.records]
        names = pa.table(
            {
                "__owner": pa.array([turn.owner for turn in turns], pa.string()),
                "__start": pa.array([turn.start for turn in turns], pa.int64()),
            }
        )
        wanted = f.broadcast(self.lake.spark.createDataFrame(names))
        same = f"organization_id = __owner AND {window_sql('timestamp', self.config.micros)} = __start"
        return rows.join(wanted, f.expr(same), "left_semi")

    def _rows(self, time: Sequence[Range], owner: str | None) -> DataFrame:
        """The rows of some time, as Iceberg finds them by its statistics."""
        reader = self.lake.spark.read.option("versionAsOf", str(self.snapshot))
        rows = reader.table(self.lake.spark_name(self.table))
        edges = [tuple(micros_of(moment_of(edge)) for edge in one) for one in time]
        between = (
            f"(timestamp >= timestamp_micros({start}L) AND timestamp < timestamp_micros({end}L))"
            for start, end in edges
        )
        rows = rows.where(" OR ".join(between) or "false")
        return rows if owner is None else rows.where(f.col("organization_id") == owner)


def _once(rows: DataFrame) -> DataFrame:
    """Every record once."""
    return rows.groupBy(*WINDOW, "record_id").agg(
        f.min("sampling_group").alias("sampling_group"), f.max("weight").alias("weight")
    )
