"""One step on Spark: files read with their deletes, laid out anew, written beside the table, swapped on the branch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.autopilot.stage.shape import key_of
from neve.errors import ConfigError
from neve.lake.branch_files import BranchFiles, swap_on_branch
from neve.lake.branches import snapshot_of
from neve.lake.replace import Replacement
from neve.lake.target_sizes import TargetSizes
from neve.model.columns import TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES_DEFAULT

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame

    from neve.autopilot.layout import PartField
    from neve.autopilot.stage.record import Record
    from neve.autopilot.stage.steps import Step
    from neve.lake.commits import Commit
    from neve.lake.lake import Lake
    from neve.lake.staged import Scan

PINNED = "neve.autopilot.pinned"
ATTEMPT = "neve.autopilot.attempt"
CURVE = "__neve_curve"
ROW_GROUP_BYTES = 128 * 1024 * 1024
FUNCTIONS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
# Where rows lie on a z-order curve; it is compaction's, and handed in by whoever knows both rooms.
Curve = Callable[["DataFrame", Sequence[str]], "Column"]


@dataclass(frozen=True)
class StepRewriter:
    """Rewrites steps of one attempt on one branch."""

    lake: Lake
    record: Record
    branch: str
    folder: str
    curve: Curve

    def rewrite(self, step: Step) -> Commit:
        """Rewrite the step's files and commit them to the branch, once."""
        lake, record = self.lake, self.record
        table = lake.table(record.table)
        head = snapshot_of(table, self.branch)
        if head is None:
            raise ConfigError(f"{record.table} has no branch {self.branch}")
        staged = BranchFiles(lake.spark, lake.spark_name(record.table), self.folder, self._properties(table))
        paths = frozenset(file.path for file in step.files)
        # The branch's head, not its base: a delete file that an earlier step's files shared is then seen to be free.
        scan = staged.scan(paths, head, step.spec_id, None)
        with staged.reading(scan.tasks) as (rows, name):
            laid_out = self._laid_out(self._promoted(rows), self._outputs(step, table))
            files = staged.write(laid_out, name, self._options(table))
        pinned = _is_pinned(scan)
        added = tuple({**file, "sort-order-id": record.order_id} for file in staged.contents(files))
        replacement = Replacement(
            staged.inputs(scan.tasks),
            added,
            head,
            _sequence(table, head) if pinned else None,
            scan.removable_deletes,
        )
        return swap_on_branch(
            lake,
            record.table,
            self.branch,
            replacement,
            batch_id=batch_id(record.id, head, paths),
            summary={ATTEMPT: record.id, PINNED: str(pinned).lower()},
        )

    def _properties(self, table: Table) -> dict[str, str]:
        """What the table will say of itself after the merge; its writers must know it now."""
        # A property that goes is one that writers of this layout do not look at.
        return {key: value for key, value in self.record.properties.items() if value is not None}

    def _target(self, table: Table) -> int:
        known = self.record.layout.target_file_bytes or table.properties.get(TARGET_FILE_SIZE_BYTES)
        return int(known or TARGET_FILE_SIZE_BYTES_DEFAULT)

    def _outputs(self, step: Step, table: Table) -> int:
        return TargetSizes(self._target(table)).outputs(step.bytes)

    def _options(self, table: Table) -> dict[str, str]:
        return {
            "target-file-size-bytes": str(_cut_at(TargetSizes(self._target(table)).large)),
            "output-spec-id": str(self.record.spec_id),
            "use-table-distribution-and-ordering": "false",
            # Rows come sorted by partition: one file at a time is open.
            "fanout-enabled": "false",
        }

    def _promoted(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a JVM's worth of imports

        for one in self.record.layout.promoted:
            column, key = key_of(one)
            rows = rows.withColumn(one.name, F.element_at(F.col(f"`{column}`"), F.lit(key)))
        return rows

    def _laid_out(self, rows: DataFrame, outputs: int) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a JVM's worth of imports

        layout, catalog = self.record.layout, self.lake.catalog_config.name
        keys = [F.expr(partition_expression(catalog, field)).asc_nulls_first() for field in layout.partition]
        if layout.zorder:
            rows = rows.withColumn(CURVE, self.curve(rows, layout.zorder))
            keys.append(F.col(CURVE).asc())
        keys += [F.col(_quoted(name)).asc_nulls_first() for name in layout.sort]
        if not keys:
            return rows.coalesce(outputs)
        return rows.repartitionByRange(outputs, *keys).sortWithinPartitions(*keys).drop(CURVE)


def _cut_at(largest: int) -> int:
    """Where Iceberg's writer ends a file; how many files there are is told by the ranges that rows are parted by.

    It counts what waits for a row group as it is in memory, several times what it will be: files of less than one row
    group would all be cut too early.
    """
    return max(largest, ROW_GROUP_BYTES)


def partition_expression(catalog: str, field: PartField) -> str:
    """A partition's value in Spark's SQL, by Iceberg's own functions.

    >>> from neve.autopilot.layout import PartField
    >>> partition_expression("lake", PartField("ts", "day")), partition_expression("lake", PartField("c", "bucket[4]"))
    ('`lake`.system.days(`ts`)', '`lake`.system.bucket(4, `c`)')
    """
    column = _quoted(field.column)
    if field.transform == "identity":
        return column
    word, _, width = field.transform.rstrip("]").partition("[")
    if word in ("bucket", "truncate"):
        return f"`{catalog}`.system.{word}({int(width)}, {column})"
    if word not in FUNCTIONS:
        raise ConfigError(
            f"the layout partitions {field.column} by {field.transform!r}, "
            "expected identity, year, month, day, hour, bucket[N] or truncate[N]"
        )
    return f"`{catalog}`.system.{FUNCTIONS[word]}({column})"


def batch_id(attempt_id: str, head: int | None, paths: frozenset[str]) -> str:
    """The id of a commit to a branch: on top of what it was made, and which files it replaces."""
    digest = hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:16]
    return f"autopilot:{attempt_id}:{head}:{digest}"


def _quoted(name: str) -> str:
    """A column, or a field of a struct by its path."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in name.split("."))


def _is_pinned(scan: Scan) -> bool:
    """Whether new files count as written when the old ones were, so that later equality deletes still apply to them."""
    applied = bool(scan.removable_deletes) or any(task.deletes().size() for task in scan.tasks)
    return not applied or scan.has_equality_deletes


def _sequence(table: Table, snapshot_id: int) -> int:
    snapshot = table.snapshot_by_id(snapshot_id)
    return (snapshot.sequence_number or 0) if snapshot else 0
