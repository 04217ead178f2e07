"""What a destination is: a place that takes batches of kept spans, and says what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from neve.errors import NeveError

if TYPE_CHECKING:
    import pyarrow as pa

MOST_MESSAGES = 10  # distinct ones that a delivery keeps; a server that refuses says the same a thousand times


class DestinationAway(NeveError):
    """Raised when a destination can't take a batch now: nothing is lost, and the same batch is to be brought again.

    `after_seconds` is how long it asked to be left alone, where it did.
    """

    def __init__(self, message: str, *, hint: str | None = None, after_seconds: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.after_seconds = after_seconds


@dataclass(frozen=True)
class Delivery:
    """What became of some spans: taken, or refused for good, with what the destination said of it.

    `bytes_sent` counts bodies as they were sent, with those that were sent again; over gRPC, before they are packed.
    """

    accepted: int = 0
    rejected: int = 0
    messages: tuple[str, ...] = ()
    bytes_sent: int = 0
    attempts: int = 0

    def __add__(self, other: Delivery) -> Delivery:
        return Delivery(
            self.accepted + other.accepted,
            self.rejected + other.rejected,
            tuple(dict.fromkeys((*self.messages, *other.messages)))[:MOST_MESSAGES],
            self.bytes_sent + other.bytes_sent,
            self.attempts + other.attempts,
        )


class Destination(Protocol):
    """A place that takes spans; one thread at a time delivers to it."""

    @property
    def name(self) -> str:
        """What users call it."""

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Bring rows of the table `spans`; returns when all of them are taken or refused for good.

        Whoever brings a batch again gives it the same id, by which a destination that can knows it.
        Raises `DestinationAway` when it can't be taken now; some of it may have arrived then.
        """

    def close(self) -> None:
        """Let go of connections; a delivery that waits for its next attempt, in another thread, gives up."""
