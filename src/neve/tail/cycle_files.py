"""Files of a selector's two tables: those that a cycle reads, and the commits of a cycle.

A cycle commits its decisions first and its open traces second, each with its checkpoint.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, Reference

from neve.errors import LeaseLost
from neve.lake.calendar import EPOCH
from neve.lake.commit.append import append_once
from neve.lake.read.snapshot_files import scan_files, scan_paths
from neve.tail.checkpoint import TAIL, Checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.lake.commit.append import Commit, FindRemoved, Guard


def list_open_files(table: Table, selector: str) -> list[DataFile]:
    """List the files that contain a selector's open traces."""
    mine = EqualTo(term=Reference("selector"), value=selector)
    return [task.file for task in scan_files(table, mine)]


def list_decision_files(table: Table, since_us: int | None = None) -> list[str]:
    """List the files with decisions, optionally only those since a time."""
    if since_us is None:
        return scan_paths(table)
    moment = (EPOCH + timedelta(microseconds=since_us)).isoformat()
    return scan_paths(table, GreaterThanOrEqual(term=Reference("decided_at"), value=moment))


def list_trace_files(table: Table, organization: str, trace_id: bytes) -> list[str]:
    """List the files that may contain decisions about one trace."""
    row_filter = And(
        EqualTo(term=Reference("organization_id"), value=organization),
        EqualTo(term=Reference("trace_id"), value=trace_id),
    )
    return scan_paths(table, row_filter)


def read_last_cycle(table: Table, selector: str) -> int:
    """Return the highest cycle number among a selector's decisions, or 0 if there are none."""
    mine = EqualTo(term=Reference("selector"), value=selector)
    batches = table.scan(row_filter=mine, selected_fields=("cycle",)).to_arrow_batch_reader()
    return max((pc.max(batch.column("cycle")).as_py() for batch in batches if batch.num_rows), default=0)


def commit_decisions(table: Table, files: Sequence[DataFile], selector: str, position: Checkpoint) -> Commit:
    """Append a cycle's decisions, exactly once."""
    return _commit(table, files, selector, position, removed=None)


def commit_open(table: Table, files: Sequence[DataFile], selector: str, position: Checkpoint) -> Commit:
    """Replace the selector's open traces by those of a cycle, exactly once."""
    return _commit(table, files, selector, position, removed=lambda found: list_open_files(found, selector))


def _commit(
    table: Table, files: Sequence[DataFile], selector: str, position: Checkpoint, removed: FindRemoved | None
) -> Commit:
    return append_once(
        table,
        files,
        batch_id=_build_batch_id(selector, position),
        operation=TAIL,
        summary=position.summary(selector),
        guard=_guard_cycle(selector, position),
        removed=removed,
    )


def _guard_cycle(selector: str, position: Checkpoint) -> Guard:
    """Build a guard that raises `LeaseLost` if another process of the selector has committed this cycle.

    A process that was considered dead must not decide again.
    """

    def check(table: Table) -> None:
        there = Checkpoint.of(table, selector)
        if there is not None and there.cycle >= position.cycle:
            raise LeaseLost(
                f"another process of the selector {selector!r} has committed cycle {there.cycle}",
                hint="nothing was committed; run one process per selector",
            )

    return check


def _build_batch_id(selector: str, position: Checkpoint) -> str:
    return f"{TAIL}:{selector}:{position.cycle}:{position.now_us}"
