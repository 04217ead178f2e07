"""Checkpoint of a selector: written into each commit to its two tables, and read back from the newest one.

A cycle commits its decisions first and its open traces second. A cycle that was killed between the two commits
is found by comparing the checkpoints of both tables, and finished.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.lake.read.positions import StoredPosition
from neve.model.commits import POSITIONS

if TYPE_CHECKING:
    from pyiceberg.table import Table


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
