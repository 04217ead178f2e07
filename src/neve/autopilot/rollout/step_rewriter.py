"""Rewrite of one step on Spark: read files with their deletes, write the new layout, swap them on the branch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.autopilot.table_layout import parse_map_key
from neve.errors import ConfigError
from neve.lake.commit.branch_files import BranchFiles, swap_on_branch
from neve.lake.commit.branches import find_ref_snapshot
from neve.lake.commit.java_commit import Replacement
from neve.lake.read.partition_stats import TargetSizes
from neve.model.properties import TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES_DEFAULT

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame

    from neve.autopilot.attempt import StagedBranch
    from neve.autopilot.layout import PartField
    from neve.autopilot.rollout.stage_files import Step
    from neve.lake.commit.append import Commit
    from neve.lake.lake import Lake
    from neve.lake.spark.staged_files import StagedScan

PINNED = "neve.autopilot.pinned"
ATTEMPT = "neve.autopilot.attempt"
CURVE_COLUMN = "__neve_curve"
ROW_GROUP_BYTES = 128 * 1024 * 1024
TRANSFORM_FUNCTIONS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
# Position of rows on a z-order curve. Compaction implements it, and the caller that imports both packages passes it in.
Curve = Callable[["DataFrame", Sequence[str]], "Column"]


@dataclass(frozen=True)
class StepRewriter:
    """Rewriter of the steps of one attempt on one branch."""

    lake: Lake
    record: StagedBranch
    branch: str
    folder: str
    curve: Curve

    def rewrite(self, step: Step) -> Commit:
        """Rewrite the step's files and commit them to the branch, once."""
        lake, record = self.lake, self.record
        table = lake.table(record.table)
        head = find_ref_snapshot(table, self.branch)
        if head is None:
            raise ConfigError(f"{record.table} has no branch {self.branch}")
        staged = BranchFiles(lake.spark, lake.spark_name(record.table), self.folder, self._final_properties(table))
        paths = frozenset(file.path for file in step.files)
        # The branch's head, not its base: then the scan sees that a delete file that an earlier step's files shared is
        # unused.
        scan = staged.scan(paths, head, step.spec_id, None)
        with staged.reading(scan.tasks) as (rows, name):
            laid_out = self._lay_out(self._add_promoted(rows), self._outputs(step, table))
            files = staged.write(laid_out, name, self._options(table))
        pinned = _is_pinned(scan)
        added = tuple({**file, "sort-order-id": record.order_id} for file in staged.contents(files))
        replacement = Replacement(
            staged.inputs(scan.tasks),
            added,
            head,
            _sequence_number(table, head) if pinned else None,
            scan.removable_deletes,
        )
        return swap_on_branch(
            lake,
            record.table,
            self.branch,
            replacement,
            batch_id=make_batch_id(record.id, head, paths),
            summary={ATTEMPT: record.id, PINNED: str(pinned).lower()},
        )

    def _final_properties(self, table: Table) -> dict[str, str]:
        """Return the table properties after the merge; the writers of the new files need them now."""
        # Properties that the merge removes don't matter: writers of this layout don't read them.
        return {key: value for key, value in self.record.properties.items() if value is not None}

    def _target(self, table: Table) -> int:
        known = self.record.layout.target_file_bytes or table.properties.get(TARGET_FILE_SIZE_BYTES)
        return int(known or TARGET_FILE_SIZE_BYTES_DEFAULT)

    def _outputs(self, step: Step, table: Table) -> int:
        return TargetSizes(self._target(table)).outputs(step.bytes)

    def _options(self, table: Table) -> dict[str, str]:
        return {
            "target-file-size-bytes": str(_file_size_limit(TargetSizes(self._target(table)).large)),
            "output-spec-id": str(self.record.spec_id),
            "use-table-distribution-and-ordering": "false",
            # Rows are sorted by partition, so one file is open at a time.
            "fanout-enabled": "false",
        }

    def _add_promoted(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a JVM's worth of imports

        for one in self.record.layout.promoted:
            column, key = parse_map_key(one)
            rows = rows.withColumn(one.name, F.element_at(F.col(f"`{column}`"), F.lit(key)))
        return rows

    def _lay_out(self, rows: DataFrame, outputs: int) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a JVM's worth of imports

        layout, catalog = self.record.layout, self.lake.catalog_config.name
        keys = [F.expr(partition_expression(catalog, field)).asc_nulls_first() for field in layout.partition]
        if layout.zorder:
            rows = rows.withColumn(CURVE_COLUMN, self.curve(rows, layout.zorder))
            keys.append(F.col(CURVE_COLUMN).asc())
        keys += [F.col(_quote_column(name)).asc_nulls_first() for name in layout.sort]
        if not keys:
            return rows.coalesce(outputs)
        return rows.repartitionByRange(outputs, *keys).sortWithinPartitions(*keys).drop(CURVE_COLUMN)


def _file_size_limit(largest: int) -> int:
    """Return the size at which Iceberg's writer closes a file.

    The number of files comes from the ranges that rows are partitioned by. The writer counts a pending row group by its
    size in memory, several times its size on disk: files of less than one row group would all be closed too early.
    """
    return max(largest, ROW_GROUP_BYTES)


def partition_expression(catalog: str, field: PartField) -> str:
    """Return the SQL expression of a partition's value in Spark, with Iceberg's own functions.

    >>> from neve.autopilot.layout import PartField
    >>> partition_expression("lake", PartField("ts", "day")), partition_expression("lake", PartField("c", "bucket[4]"))
    ('`lake`.system.days(`ts`)', '`lake`.system.bucket(4, `c`)')
    """
    column = _quote_column(field.column)
    if field.transform == "identity":
        return column
    word, _, width = field.transform.rstrip("]").partition("[")
    if word in ("bucket", "truncate"):
        return f"`{catalog}`.system.{word}({int(width)}, {column})"
    if word not in TRANSFORM_FUNCTIONS:
        raise ConfigError(
            f"the layout partitions {field.column} by {field.transform!r}, "
            "expected identity, year, month, day, hour, bucket[N] or truncate[N]"
        )
    return f"`{catalog}`.system.{TRANSFORM_FUNCTIONS[word]}({column})"


def make_batch_id(attempt_id: str, head: int | None, paths: frozenset[str]) -> str:
    """Return the id of a commit to a branch, from the parent snapshot and the replaced files."""
    digest = hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:16]
    return f"autopilot:{attempt_id}:{head}:{digest}"


def _quote_column(name: str) -> str:
    """Quote a column, or a field of a struct by its path."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in name.split("."))


def _is_pinned(scan: StagedScan) -> bool:
    """Return whether new files get the sequence number of the old ones, so that later equality deletes still apply."""
    applied = bool(scan.removable_deletes) or any(task.deletes().size() for task in scan.tasks)
    return not applied or scan.has_equality_deletes


def _sequence_number(table: Table, snapshot_id: int) -> int:
    snapshot = table.snapshot_by_id(snapshot_id)
    return (snapshot.sequence_number or 0) if snapshot else 0
