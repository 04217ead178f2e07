"""What a cycle in memory did."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from neve.model.tail import DECISIONS
from neve.tail.engine import DUCKDB
from neve.tail.result import IDLE, CycleResult
from neve.tail.tally import Count

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.tail.config import TailConfig
    from neve.tail.export.pump import PumpResult
    from neve.tail.memory.turn import Turn

MEMORY = "memory"  # the source of decisions that no table's spans led to
NONE = Count()


@dataclass(frozen=True)
class MemoryResult(CycleResult):
    """As every cycle's, with what is held after it and what did not go as it should; `early` counts what had to."""

    held_spans: int = 0
    held_bytes: int = 0
    early: Count = field(default=NONE)
    forgotten: int = 0
    lost: dict[str, int] = field(default_factory=dict)  # spans, by destination
    decisions: pa.Table = field(default_factory=DECISIONS.schema.empty_table, repr=False, compare=False)
    deliveries: tuple[PumpResult, ...] = field(default=(), repr=False, compare=False)

    def as_document(self) -> dict[str, Any]:
        """The result as JSON has it; decisions are counted, not listed."""
        plain = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("decisions", "deliveries")
        }
        return {name: _plain(value) for name, value in plain.items()}


def memory_result(config: TailConfig, turn: Turn, new: pa.Table, *, open_count: int, seconds: float) -> MemoryResult:
    """What a cycle comes to that was made from some new rows."""
    tally, idle = turn.tally, not turn.rows and not new.num_rows
    return MemoryResult(
        selector=config.name,
        source=MEMORY,
        cycle=turn.judging.made.cycle,
        committed=not idle,
        reason=IDLE if idle else "what was fed since the last cycle was summed up",
        engine=DUCKDB,
        spans=new.num_rows,
        bytes=new.nbytes,
        decided=tally.decided,
        sampled=tally.sampled,
        dropped=tally.dropped,
        late=tally.late,
        revised=tally.revised,
        taken=tally.taken,
        open=open_count,
        policies=tally.by_policy,
        estimated_traces=tally.estimated,
        seconds=seconds,
        held_spans=turn.held.rows,
        held_bytes=turn.held.bytes,
        early=turn.early,
        decisions=turn.decisions,
    )


def _plain(value: object) -> object:
    if isinstance(value, Count):
        return {"traces": value.traces, "spans": value.spans}
    return {key: _plain(one) for key, one in value.items()} if isinstance(value, dict) else value
