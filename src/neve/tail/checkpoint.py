"""Checkpoint of a selector: written into each commit to its two tables, and read back from the newest one.

A cycle commits its decisions first and its open traces second. A cycle that was killed between the two commits
is found by comparing the checkpoints of both tables, and finished.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, Reference

from neve.errors import ConfigError, LeaseLost
from neve.lake.calendar import EPOCH
from neve.lake.commit.append import append_once
from neve.lake.read.positions import StoredPosition
from neve.lake.read.snapshot_files import scan_files, scan_paths
from neve.model.commits import POSITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.lake.commit.append import Commit, Guard


TAIL = "tail"


@dataclass(frozen=True)
class Checkpoint(StoredPosition):
    """State of a selector after a cycle: the source snapshot that it read, and the time up to which traces are decided.

    `layout` identifies the meaning of a summary's bits, `waits` the rules for when a trace is ready. `limits` is the
    state of budgets and moving averages.
    """

    cycle: int
    source: str
    snapshot_id: int | None
    now_us: int
    until_us: int
    policies: str
    layout: str
    waits: str = ""
    limits: dict[str, dict[str, object]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, selector: str) -> Checkpoint | None:
        """Return the checkpoint in the selector's last commit to a table, or `None`."""
        return cls.load(table, build_stream_name(selector))

    def summary(self, selector: str) -> dict[str, str]:
        """Return the checkpoint as summary properties of a commit, with sorted keys as in all releases."""
        words = self.to_summary(build_stream_name(selector))
        return {**words, POSITIONS: json.dumps(asdict(self), sort_keys=True)}


@dataclass(frozen=True)
class CycleStart:
    """Checkpoint at the start of a cycle.

    `unfinished` is the checkpoint of a cycle that was killed halfway.
    """

    position: Checkpoint | None
    unfinished: Checkpoint | None = None

    @property
    def until_us(self) -> int:
        """Time up to which ready traces are decided."""
        return self.position.until_us if self.position else 0

    @property
    def limits(self) -> dict[str, dict[str, object]]:
        """State of budgets and moving averages."""
        return self.position.limits if self.position else {}

    @property
    def cycle(self) -> int:
        """Number of the last known cycle."""
        return self.position.cycle if self.position else 0


def load_cycle_start(decisions: Table, opened: Table, selector: str, source: str) -> CycleStart:
    """Load the checkpoint of a selector from its last commits to both of its tables."""
    decided, left = Checkpoint.of(decisions, selector), Checkpoint.of(opened, selector)
    for position in (decided, left):
        if position is not None and position.source != source:
            raise ConfigError(
                f"the selector {selector!r} reads {position.source}, but tail.source.table is {source}",
                hint="use another tail.name for another table",
            )
    if decided is not None and (left is None or decided.cycle > left.cycle):
        return CycleStart(left, unfinished=decided)
    if left is not None and decided is not None:
        # Cycles without decisions commit only open traces, so the state of budgets comes from the last decisions.
        left = replace(left, limits=decided.limits)
    return CycleStart(left)


def build_stream_name(selector: str) -> str:
    """Return the stream name of a selector, which is unique among all writers that resume from a checkpoint."""
    return f"{TAIL}:{selector}"


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
    return append_once(
        table,
        files,
        batch_id=_build_batch_id(selector, position),
        operation=TAIL,
        summary=position.summary(selector),
        guard=_guard_cycle(selector, position),
    )


def commit_open(table: Table, files: Sequence[DataFile], selector: str, position: Checkpoint) -> Commit:
    """Replace the selector's open traces by those of a cycle, exactly once."""
    return append_once(
        table,
        files,
        batch_id=_build_batch_id(selector, position),
        operation=TAIL,
        summary=position.summary(selector),
        guard=_guard_cycle(selector, position),
        removed=lambda found: list_open_files(found, selector),
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
