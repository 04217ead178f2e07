"""What users should know of a cycle in memory, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from neve.tail.decisions import REVISED

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from neve.tail.config import TailConfig
    from neve.tail.memory.result import MemoryResult
    from neve.tail.memory.turn import Turn

MOST_NAMED = 3


def remarks_of(
    turn: Turn, result: MemoryResult, config: TailConfig, most_remembered: int, *, everything: bool
) -> Iterator[str]:
    """What did not go as for a selector that has all the room."""
    if turn.early.traces:
        why = "the selector stops" if everything else f"spans filled tail.buffer_mb, which is {config.buffer_mb}"
        limits = "; limits gave them what the time since the last such ones is worth" if turn.allowance.matters else ""
        yield f"{turn.early.traces:,} traces were decided before they were complete: {why}{limits}"
    if turn.large:
        named = ", ".join(turn.large[:MOST_NAMED]) + (", …" if len(turn.large) > MOST_NAMED else "")
        yield f"traces that fill much of tail.buffer_mb alone: {named}; what comes of them yet follows the decision"
    yield from _revised(result.decisions)
    if result.forgotten:
        yield (
            f"{result.forgotten:,} decisions were forgotten before tail.late_seconds: no more than "
            f"{most_remembered:,} are remembered"
        )
    for name, spans in result.lost.items():
        yield (
            f"{spans:,} kept spans could not be held for the destination {name}: tail.buffer_mb "
            f"({config.buffer_mb}) of them wait for it already"
        )
    if turn.judging.claims.trouble:
        yield turn.judging.claims.trouble


def _revised(decisions: pa.Table) -> Iterator[str]:
    revised = decisions.filter(pc.equal(decisions.column("kind"), REVISED))
    if revised.num_rows:
        gone = pc.sum(pc.subtract(revised.column("span_count"), revised.column("late_spans"))).as_py()
        yield (
            f"late spans made {revised.num_rows:,} traces kept after all: {gone:,} spans of them that came before are "
            "not held any more, and are not exported"
        )
