"""Spark engine of the canary: run statements, measure bytes and seconds, and compare two answers.

Answers are compared without order, with types, by hash. Floating-point aggregates may differ by a tolerance.
"""

from __future__ import annotations

import math
import time
import uuid
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from neve.autopilot.rollout.row_proof import hash_rows, list_types
from neve.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

    from neve.lake.lake import Lake
    from neve.predicate.filters import Test


Row = tuple[object, ...]


@dataclass(frozen=True)
class Answer:
    """One answer; `values` are its rows if numbers may differ by the tolerance, each with those numbers at the end."""

    types: tuple[str, ...]
    rows: int
    hash: int = 0
    values: tuple[tuple[Row, tuple[float | None, ...]], ...] | None = None
    planned_bytes: int = 0
    read_bytes: int | None = None
    seconds: float = 0.0


def compare_answers(main: Answer, branch: Answer, tolerance: float) -> str:
    """Return the difference of two answers; empty if they are equal."""
    if main.types != branch.types:
        return f"types {', '.join(main.types)} on main, {', '.join(branch.types)} on the branch"
    if main.rows != branch.rows:
        return f"{main.rows} rows on main, {branch.rows} on the branch"
    if main.values is None or branch.values is None:
        return "" if main.hash == branch.hash else "different values"
    return _compare_values(_sort_rows(main.values), _sort_rows(branch.values), tolerance)


def _sort_rows(rows: Sequence[tuple[Row, tuple[float | None, ...]]]) -> list[tuple[Row, tuple[float | None, ...]]]:
    return sorted(rows, key=lambda row: (repr(row[0]), [_sort_key(value) for value in row[1]]))


def _sort_key(value: float | None) -> tuple[int, float]:
    """Return a sort key: null first, then numbers, then NaN."""
    if value is None:
        return 0, 0.0
    return (2, 0.0) if math.isnan(value) else (1, value)


def _compare_values(
    main: Sequence[tuple[Row, tuple[float | None, ...]]],
    branch: Sequence[tuple[Row, tuple[float | None, ...]]],
    tolerance: float,
) -> str:
    for (exact, numbers), (other_exact, other_numbers) in zip(main, branch, strict=True):
        if exact != other_exact:
            return "different values"
        if not all(_is_close(one, other, tolerance) for one, other in zip(numbers, other_numbers, strict=True)):
            return f"numbers differ by more than a relative {tolerance:g}"
    return ""


def _is_close(one: float | None, other: float | None, tolerance: float) -> bool:
    if one is None or other is None or math.isnan(one) or math.isnan(other):
        return one is other or (one is not None and other is not None and math.isnan(one) and math.isnan(other))
    # Sums that cancel out are near zero, where no number is within a relative tolerance.
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)


PLANNED_METRIC = "totalDataFileSize"
FLOAT_TYPES = ("float", "double")
GROUP_PROPERTY = "spark.jobGroup.id"
SESSION_SETTINGS = {
    "spark.sql.variable.substitute": "false"
}  # ${env:…} in a text would expand to the environment of the driver


@dataclass(frozen=True)
class SparkEngine:
    """Runner of statements in its own session, which has only the views that are created here."""

    lake: Lake
    table: str
    most_rows: int
    allow_literals: bool = False

    @cached_property
    def session(self) -> SparkSession:
        """The session that runs text from logs."""
        return self.lake.new_session(SESSION_SETTINGS)

    def view(self, version: int | str, implied: Sequence[Test] = (), *, branch: bool = False) -> str:
        """Create a view of the table at a snapshot or a branch's head, with the implied tests, and return its name."""
        option = "branch" if branch else "versionAsOf"
        rows = self.session.read.option(option, str(version)).table(self.lake.spark_name(self.table))
        return _create_view(rows, implied)

    def create_view_of(self, table: str, implied: Sequence[Test]) -> str:
        """Create a view of the current state of another table, and return its name."""
        return _create_view(self.session.table(self.lake.spark_name(table)), implied)

    def drop(self, view: str) -> None:
        """Drop a view."""
        self.session.catalog.dropTempView(view)

    def run(self, statement: str, *, aggregates: bool) -> Answer:
        """Return the answer and its cost.

        Raises `QueryError` if the statement fails.
        """
        from pyspark.errors import PySparkException  # noqa: PLC0415 - a JVM's worth of imports

        context, group = self.session.sparkContext, f"neve-canary-{uuid.uuid4().hex}"
        context.setJobGroup(group, "neve:autopilot canary")
        started = time.monotonic()
        try:
            found, plan = self._run(self.session.sql(statement), aggregates=aggregates)
        except PySparkException as error:
            raise QueryError(f"Spark failed: {self._explain_error(error)}") from error
        finally:
            context.setLocalProperty(GROUP_PROPERTY, None)  # type: ignore[arg-type]
        return replace(
            found,
            seconds=time.monotonic() - started,
            planned_bytes=sum(_planned_bytes(leaf, self.lake.spark_name(self.table)) for leaf in _find_leaves(plan)),
            read_bytes=self._read(group),
        )

    def _explain_error(self, error: PySparkException) -> str:
        """Return the reason of an error.

        Spark's message may contain values of the query. Unless literals are allowed, only the error class is returned.
        """
        message = (str(error).splitlines() or [""])[0]
        return message if self.allow_literals else error.getCondition() or type(error).__name__

    def _run(self, rows: DataFrame, *, aggregates: bool) -> tuple[Answer, Any]:
        # Two columns of a query may have the same name.
        named = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))
        types = list_types(named)
        inexact = [number for number, kind in enumerate(types) if kind in FLOAT_TYPES]
        if not (aggregates and inexact):
            return self._hash(named, types)
        limited = named.limit(self.most_rows + 1)
        collected = limited.collect()
        if len(collected) > self.most_rows:
            raise QueryError(f"its result has more than {self.most_rows} rows with floating-point aggregates")
        values = tuple(
            (
                tuple(value for number, value in enumerate(row) if number not in inexact),
                tuple(row[number] for number in inexact),
            )
            for row in collected
        )
        return Answer(types, len(values), values=values), limited._jdf.queryExecution().executedPlan()

    def _hash(self, rows: DataFrame, types: tuple[str, ...]) -> tuple[Answer, Any]:
        proof, query = hash_rows(rows, rows.columns)
        return Answer(types, proof.rows, proof.hash), query._jdf.queryExecution().executedPlan()

    def _read(self, group: str) -> int | None:
        """Return the bytes that the tasks read, as counted by Hadoop's file systems, or None if they count nothing."""
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


def _create_view(rows: DataFrame, implied: Sequence[Test]) -> str:
    """Create a view with a unique name, without the rows that the author of the query is not allowed to see."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a JVM's worth of imports

    name = f"neve_canary_{uuid.uuid4().hex}"
    for test in implied:
        if test.column in rows.columns:
            rows = rows.where(F.col(f"`{test.column}`").isin(*test.values))
    rows.createOrReplaceTempView(name)
    return name


def _find_leaves(plan: Any) -> Iterator[Any]:
    """Yield the leaves of an executed plan, including those of subqueries."""
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        yield from _find_leaves(plan.executedPlan())
        return
    if kind.endswith("QueryStageExec"):
        yield from _find_leaves(plan.plan())
        return
    subqueries = plan.subqueries()
    for number in range(subqueries.size()):
        yield from _find_leaves(subqueries.apply(number))
    children = plan.children()
    if children.isEmpty():
        yield plan
    for number in range(children.size()):
        yield from _find_leaves(children.apply(number))


def _planned_bytes(leaf: Any, table: str) -> int:
    """Return the bytes of the files that a scan of the table planned to read."""
    if leaf.getClass().getSimpleName() != "BatchScanExec" or f" {table.replace('`', '')}[" not in leaf.simpleString(1):
        return 0
    metric = leaf.metrics().get(PLANNED_METRIC)
    return int(metric.get().value()) if metric.isDefined() else 0
