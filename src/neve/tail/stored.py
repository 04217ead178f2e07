"""The selector's own tables: which of their files it reads, and how it commits to them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, Reference

from neve.errors import LeaseLost
from neve.lake.calendar import EPOCH
from neve.lake.commits import append_once
from neve.tail.position import TAIL, Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.lake.commits import Commit, Guard


def open_files(table: Table, selector: str) -> list[DataFile]:
    """The files that hold a selector's open traces."""
    mine = EqualTo(term=Reference("selector"), value=selector)
    return [task.file for task in table.scan(row_filter=mine).plan_files()]


def decision_files(table: Table, since_us: int | None = None) -> list[str]:
    """The files with decisions, those since a moment where one is given."""
    scan = table.scan()
    if since_us is not None:
        moment = (EPOCH + timedelta(microseconds=since_us)).isoformat()
        scan = table.scan(row_filter=GreaterThanOrEqual(term=Reference("decided_at"), value=moment))
    return [task.file.file_path for task in scan.plan_files()]


def trace_files(table: Table, organization: str, trace_id: bytes) -> list[str]:
    """The files that may hold decisions about one trace."""
    row_filter = And(
        EqualTo(term=Reference("organization_id"), value=organization),
        EqualTo(term=Reference("trace_id"), value=trace_id),
    )
    return [task.file.file_path for task in table.scan(row_filter=row_filter).plan_files()]


def last_cycle(table: Table, selector: str) -> int:
    """The highest number of a selector's cycle that has decisions; one that wrote nothing yet has none to read."""
    mine = EqualTo(term=Reference("selector"), value=selector)
    batches = table.scan(row_filter=mine, selected_fields=("cycle",)).to_arrow_batch_reader()
    return max((pc.max(batch.column("cycle")).as_py() for batch in batches if batch.num_rows), default=0)


def commit_decisions(table: Table, files: Sequence[DataFile], selector: str, position: Position) -> Commit:
    """Add a cycle's decisions, once."""
    return append_once(
        table,
        files,
        batch_id=_batch(selector, position),
        operation=TAIL,
        summary=position.summary(selector),
        guard=_after(selector, position),
    )


def commit_open(table: Table, files: Sequence[DataFile], selector: str, position: Position) -> Commit:
    """Put a cycle's open traces in the place of those before, once."""
    return append_once(
        table,
        files,
        batch_id=_batch(selector, position),
        operation=TAIL,
        summary=position.summary(selector),
        guard=_after(selector, position),
        removed=lambda found: open_files(found, selector),
    )


def _after(selector: str, position: Position) -> Guard:
    """No other process of the selector may have come as far: one that was taken for dead must not decide once more."""

    def check(table: Table) -> None:
        there = Position.of(table, selector)
        if there is not None and there.cycle >= position.cycle:
            raise LeaseLost(
                f"the selector {selector!r} has decided cycle {there.cycle} in another process",
                hint="nothing was committed; one process of a selector works at a time",
            )

    return check


def _batch(selector: str, position: Position) -> str:
    return f"{TAIL}:{selector}:{position.cycle}:{position.now_us}"
