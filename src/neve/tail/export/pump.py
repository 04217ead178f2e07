"""From the log of decisions to a destination, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from neve.tail.export.port import Delivery, DestinationAway

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from neve.tail.export.outbox import Cursor
    from neve.tail.export.port import Destination
    from neve.tail.export.position import Position

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class PumpResult:
    """What a destination got in one go, how far it is, and why it got no more, where it is away.

    `missing` counts kept spans that were no longer there to be brought; `note` says why another process has its turn.
    """

    destination: str
    position: Position | None
    batches: int
    delivery: Delivery
    away: DestinationAway | None = None
    missing: int = 0
    note: str = ""


def pump(destination: Destination, cursor: Cursor, batches: Iterable[tuple[Position, pa.RecordBatch]]) -> PumpResult:
    """Bring batches, each with the position that is reached with it, and move the cursor after each.

    Batches come in the order of their positions; those that are behind the cursor are passed over. A destination that
    is away ends the turn with its cursor where it is: that is a result, not an error, and whoever asked for the turn
    tells of it. What it refuses for good is counted and told, and not brought again.
    """
    total, count = Delivery(), 0
    away = None
    for until, batch in batches:
        if cursor.position is not None and until <= cursor.position:
            continue
        try:
            delivery = destination.deliver(batch, cursor.batch_id(until))
        except DestinationAway as error:
            away = error
            break
        cursor.move(until)
        _tell(destination.name, until, delivery)
        total, count = total + delivery, count + 1
    return PumpResult(destination.name, cursor.position, count, total, away)


def _tell(destination: str, until: Position, delivery: Delivery) -> None:
    if delivery.rejected:
        log.error(
            "destination refused spans for good",
            destination=destination,
            position=until,
            rejected=delivery.rejected,
            accepted=delivery.accepted,
            said=delivery.messages,
        )
    elif delivery.messages:
        log.warning("destination took all spans and warns", destination=destination, said=delivery.messages)
