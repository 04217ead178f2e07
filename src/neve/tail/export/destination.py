"""The destination protocol and what all destinations share: deliveries, retries with backoff, and request splitting.

A batch is split into requests that a destination accepts. Spans of one trace stay together if they fit. A delivery
moves the destination's cursor after each batch. An unavailable destination ends its turn without an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from neve.errors import NeveError
from neve.http_client import RetryableError, describe_retry, make_retrying
from neve.logger import get_logger
from neve.otlp.envelope import find_changes

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from tenacity import RetryCallState

    from neve.tail.export.cursor import Cursor, Position


MAX_MESSAGES = 10  # distinct messages that a delivery stores, as a server may repeat a rejection a thousand times


class DestinationUnavailable(NeveError):
    """Raised when a destination can't accept a batch now.

    Nothing is lost: the same batch is delivered again. `after_seconds` is the delay that the destination requested, if
    any.
    """

    def __init__(self, message: str, *, hint: str | None = None, after_seconds: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.after_seconds = after_seconds


@dataclass(frozen=True)
class Delivery:
    """Result of a delivery: accepted and permanently rejected spans, with the destination's messages.

    `bytes_sent` counts bodies as they were sent, including retries. Over gRPC, it counts them before compression.
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
            tuple(dict.fromkeys((*self.messages, *other.messages)))[:MAX_MESSAGES],
            self.bytes_sent + other.bytes_sent,
            self.attempts + other.attempts,
        )


class Destination(Protocol):
    """Receiver of spans.

    One thread at a time delivers to it.
    """

    @property
    def name(self) -> str:
        """Name of the destination in the configuration."""

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Deliver rows of the table `spans`.

        Return when all are accepted or permanently rejected. A batch that is delivered again has the same id, so that a
        destination can detect duplicates.

        Raises `DestinationUnavailable` if the destination can't accept the batch now. Part of it may have arrived.
        """

    def close(self) -> None:
        """Close connections.

        A delivery in another thread that waits for its next attempt is aborted.
        """


T = TypeVar("T")

log = get_logger(__name__)


@dataclass(frozen=True)
class RetryPolicy:
    """Retries within a time limit, with growing random backoff.

    A pause that would exceed the limit is not started.
    """

    destination: str
    retry_seconds: float
    stop: Event = field(default_factory=Event)

    def run(self, attempt: Callable[[], T]) -> tuple[T, int]:
        """Return the result of the first attempt without a `RetryableError`, and the number of that attempt.

        Raises `DestinationUnavailable` if no attempt succeeds in time.
        """
        attempts = make_retrying(
            self.retry_seconds, lambda error: isinstance(error, RetryableError), self._log_retry, self.stop
        )
        try:
            return attempts(attempt), int(attempts.statistics["attempt_number"])
        except RetryableError as error:
            number = attempts.statistics["attempt_number"]
            raise DestinationUnavailable(
                f"the destination {self.destination} accepted nothing in {number} attempts: {error.message}",
                hint="kept spans are delivered when it is available again",
                after_seconds=error.after,
            ) from error

    def _log_retry(self, state: RetryCallState) -> None:
        log.warning("retrying destination", destination=self.destination, **describe_retry(state))


@dataclass(frozen=True)
class SendResult:
    """Result of one request.

    `divide` means that nothing was accepted, but a smaller request may be.
    """

    rejected: int = 0
    message: str = ""
    divide: bool = False
    bytes_sent: int = 0
    attempts: int = 0


SendRequest = Callable[["pa.RecordBatch"], SendResult]


class SpanEncodingError(ValueError):
    """Raised when rows contain values that a destination's format can't represent.

    Foreign tables may hold any value.
    """


def reject_unencodable(batch: pa.RecordBatch, error: SpanEncodingError) -> SendResult:
    """Return the result for a request that can't be encoded: divide it, or reject it if it has one span."""
    span = batch.column("span_id")[0].as_py() or b""
    return SendResult(rejected=batch.num_rows, message=f"span {span.hex()} {error}", divide=True)


def send_in_pieces(batch: pa.RecordBatch, most: int, send: SendRequest) -> Delivery:
    """Send a batch in requests of limited size.

    A request that is too large is halved down to a single span.
    """
    waiting = deque(split_batch(batch, most))
    total = Delivery()
    while waiting:
        piece = waiting.popleft()
        sent = send(piece)
        if sent.divide and piece.num_rows > 1:
            waiting.extendleft(reversed(split_batch(piece, piece.num_rows // 2)))
            total += Delivery(bytes_sent=sent.bytes_sent, attempts=sent.attempts)
        else:
            total += _to_delivery(piece.num_rows, sent)
    return total


def split_batch(batch: pa.RecordBatch, most: int) -> list[pa.RecordBatch]:
    """Split a batch into parts of limited size.

    A trace is split only if it is larger than a part by itself.
    """
    count = batch.num_rows
    if count <= most:
        return [batch] if count else []
    ends = np.append(find_trace_starts(batch)[1:], count)
    pieces, begin = [], 0
    while begin < count:
        whole = int(np.searchsorted(ends, begin + most, side="right"))
        end = int(ends[whole - 1]) if whole and ends[whole - 1] > begin else begin + most
        pieces.append(batch.slice(begin, end - begin))
        begin = end
    return pieces


def find_trace_starts(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the rows at which traces begin, in a batch that is sorted by trace."""
    return np.flatnonzero(find_changes(batch.column("trace_id"))) if batch.num_rows else np.array([], dtype=np.int64)


def _to_delivery(spans: int, sent: SendResult) -> Delivery:
    rejected = min(max(sent.rejected, 0), spans)
    messages = (sent.message,) if sent.message else ()
    return Delivery(spans - rejected, rejected, messages, sent.bytes_sent, sent.attempts)


@dataclass(frozen=True)
class DeliveryResult:
    """Result of one export run of a destination: deliveries, position, and the error if it is unavailable.

    `missing` counts kept spans that no longer exist in the source. `note` is the reason why another process has the
    lease.
    """

    destination: str
    position: Position | None
    batches: int
    delivery: Delivery
    error: DestinationUnavailable | None = None
    missing: int = 0
    note: str = ""


def export_batches(
    destination: Destination, cursor: Cursor, batches: Iterable[tuple[Position, pa.RecordBatch]]
) -> DeliveryResult:
    """Deliver batches, each with the position after it, and move the cursor after each.

    Batches are in the order of their positions. Batches before the cursor are skipped. An unavailable destination ends
    the run and leaves its cursor unchanged: this is a result, not an error, and the caller reports it. Permanently
    rejected spans are counted and reported, and not delivered again.
    """
    total, count = Delivery(), 0
    error = None
    for until, batch in batches:
        if cursor.position is not None and until <= cursor.position:
            continue
        try:
            delivery = destination.deliver(batch, cursor.batch_id(until))
        except DestinationUnavailable as unavailable:
            error = unavailable
            break
        cursor.move(until)
        _log_messages(destination.name, until, delivery)
        total, count = total + delivery, count + 1
    return DeliveryResult(destination.name, cursor.position, count, total, error)


def _log_messages(destination: str, until: Position, delivery: Delivery) -> None:
    if delivery.rejected:
        log.error(
            "destination rejected spans",
            destination=destination,
            position=until,
            rejected=delivery.rejected,
            accepted=delivery.accepted,
            said=delivery.messages,
        )
    elif delivery.messages:
        log.warning("destination accepted all spans with a warning", destination=destination, said=delivery.messages)
