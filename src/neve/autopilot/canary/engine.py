"""Statements asked of Spark: the answer's fingerprint, what was planned, what was read, and how long it took."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from neve.autopilot.canary.answer import Answer
from neve.autopilot.stage.proof import fingerprint, types_of
from neve.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

    from neve.autopilot.workload import Test
    from neve.lake.lake import Lake

PLANNED = "totalDataFileSize"
FLOATS = ("float", "double")
GROUP = "spark.jobGroup.id"
SETTINGS = {"spark.sql.variable.substitute": "false"}  # ${env:…} in a text would be the environment of the driver


@dataclass(frozen=True)
class SparkEngine:
    """Asks statements of a session of its own, which has no views but those that are made here."""

    lake: Lake
    table: str
    most_rows: int
    allow_literals: bool = False

    @cached_property
    def session(self) -> SparkSession:
        """The session that runs text from logs."""
        return self.lake.new_session(SETTINGS)

    def view(self, version: int | str, implied: Sequence[Test] = (), *, branch: bool = False) -> str:
        """A view of the table at a snapshot, or at a branch's head, with the rows that are implied; its name."""
        option = "branch" if branch else "versionAsOf"
        rows = self.session.read.option(option, str(version)).table(self.lake.spark_name(self.table))
        return _named(rows, implied)

    def other(self, table: str, implied: Sequence[Test]) -> str:
        """A view of another table as it is now."""
        return _named(self.session.table(self.lake.spark_name(table)), implied)

    def drop(self, view: str) -> None:
        """Forget a view."""
        self.session.catalog.dropTempView(view)

    def ask(self, statement: str, *, aggregates: bool) -> Answer:
        """The answer, and what it cost; raises `QueryError` where it can't be had."""
        from pyspark.errors import PySparkException  # noqa: PLC0415 - a JVM's worth of imports

        context, group = self.session.sparkContext, f"neve-canary-{uuid.uuid4().hex}"
        context.setJobGroup(group, "neve:autopilot canary")
        started = time.monotonic()
        try:
            found, plan = self._run(self.session.sql(statement), aggregates=aggregates)
        except PySparkException as error:
            raise QueryError(f"spark can't answer: {self._why(error)}") from error
        finally:
            context.setLocalProperty(GROUP, None)  # type: ignore[arg-type]
        return replace(
            found,
            seconds=time.monotonic() - started,
            planned_bytes=sum(_planned(leaf, self.lake.spark_name(self.table)) for leaf in _leaves(plan)),
            read_bytes=self._read(group),
        )

    def _why(self, error: PySparkException) -> str:
        """Spark's own words may hold values of the query: without leave only the kind of the error is told."""
        said = (str(error).splitlines() or [""])[0]
        return said if self.allow_literals else error.getCondition() or type(error).__name__

    def _run(self, rows: DataFrame, *, aggregates: bool) -> tuple[Answer, Any]:
        # Two columns of a query may have one name.
        named = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))
        types = types_of(named)
        inexact = [number for number, kind in enumerate(types) if kind in FLOATS]
        if not (aggregates and inexact):
            return self._hashed(named, types)
        limited = named.limit(self.most_rows + 1)
        collected = limited.collect()
        if len(collected) > self.most_rows:
            raise QueryError(f"its answer has more than {self.most_rows} rows with numbers that may differ a little")
        values = tuple(
            (
                tuple(value for number, value in enumerate(row) if number not in inexact),
                tuple(row[number] for number in inexact),
            )
            for row in collected
        )
        return Answer(types, len(values), values=values), limited._jdf.queryExecution().executedPlan()

    def _hashed(self, rows: DataFrame, types: tuple[str, ...]) -> tuple[Answer, Any]:
        proof, asked = fingerprint(rows, rows.columns)
        return Answer(types, proof.rows, proof.hash), asked._jdf.queryExecution().executedPlan()

    def _read(self, group: str) -> int | None:
        """The bytes that the tasks read, as Hadoop's file systems count them; none where they count nothing."""
        context: Any = self.session.sparkContext
        scala, tracker = context._jsc.sc(), context.statusTracker()
        scala.listenerBus().waitUntilEmpty()
        nothing = context._gateway.new_array(context._jvm.double, 0)
        read = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                attempts = scala.statusStore().stageData(
                    stage, False, context._jvm.java.util.ArrayList(), False, nothing
                )
                read += sum(attempts.apply(number).inputBytes() for number in range(attempts.size()))
        return read or None


def _named(rows: DataFrame, implied: Sequence[Test]) -> str:
    """Rows under a name of their own, without those that whoever asked does not see."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a JVM's worth of imports

    name = f"neve_canary_{uuid.uuid4().hex}"
    for test in implied:
        if test.column in rows.columns:
            rows = rows.where(F.col(f"`{test.column}`").isin(*test.values))
    rows.createOrReplaceTempView(name)
    return name


def _leaves(plan: Any) -> Iterator[Any]:
    """Where a plan that has run got its rows from, those of subqueries among them."""
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        yield from _leaves(plan.executedPlan())
        return
    if kind.endswith("QueryStageExec"):
        yield from _leaves(plan.plan())
        return
    subqueries = plan.subqueries()
    for number in range(subqueries.size()):
        yield from _leaves(subqueries.apply(number))
    children = plan.children()
    if children.isEmpty():
        yield plan
    for number in range(children.size()):
        yield from _leaves(children.apply(number))


def _planned(leaf: Any, table: str) -> int:
    """The bytes of the files that a scan of the table planned to read."""
    if leaf.getClass().getSimpleName() != "BatchScanExec" or f" {table.replace('`', '')}[" not in leaf.simpleString(1):
        return 0
    metric = leaf.metrics().get(PLANNED)
    return int(metric.get().value()) if metric.isDefined() else 0
