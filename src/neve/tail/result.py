"""What a cycle did."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from neve.tail.tally import NONE, Count

if TYPE_CHECKING:
    from neve.tail.news import News
    from neve.tail.position import Position
    from neve.tail.tally import Tally

IDLE = "nothing is new, and nothing became ready"


@dataclass(frozen=True)
class CycleResult:
    """What a cycle read and decided; `policies` counts what each policy kept or dropped."""

    selector: str
    source: str
    cycle: int
    committed: bool
    reason: str
    engine: str
    files: int = 0
    spans: int = 0
    bytes: int = 0
    decided: Count = NONE
    sampled: Count = NONE
    dropped: Count = NONE
    late: Count = NONE
    revised: Count = NONE
    taken: Count = NONE
    open: int = 0
    policies: dict[str, Count] = field(default_factory=dict)
    estimated_traces: float = 0.0
    snapshot: str = ""
    seconds: float = 0.0
    remarks: tuple[str, ...] = ()

    def as_document(self) -> dict[str, object]:
        """The result as JSON has it."""
        return asdict(self)


def cycle_result(  # noqa: PLR0913 - all that there is to tell
    selector: str,
    position: Position,
    news: News,
    began: float,
    tally: Tally,
    *,
    engine: str = "",
    idle: bool = False,
    snapshot: int | None = None,
    left: int = 0,
    remarks: tuple[str, ...] = (),
) -> CycleResult:
    """What a cycle that began at a moment of the process's clock comes to."""
    read = f"all spans were read: {news.whole}" if news.whole else "what came since the last cycle was read"
    return CycleResult(
        selector=selector,
        source=position.source,
        cycle=position.cycle,
        committed=not idle,
        reason=IDLE if idle else read,
        engine=engine,
        files=len(news.files),
        spans=news.rows,
        bytes=news.bytes,
        decided=tally.decided,
        sampled=tally.sampled,
        dropped=tally.dropped,
        late=tally.late,
        revised=tally.revised,
        taken=tally.taken,
        open=left,
        policies=tally.by_policy,
        estimated_traces=tally.estimated,
        snapshot=str(snapshot or ""),
        seconds=time.monotonic() - began,
        remarks=remarks,
    )
