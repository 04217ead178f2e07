"""A batch in requests of a size that the destination takes, whole traces together where they fit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.otlp.envelope import changes
from neve.tail.export.port import Delivery

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Sent:
    """What became of one request. `divide` says that nothing of it was taken, but a part of it may be."""

    rejected: int = 0
    message: str = ""
    divide: bool = False
    bytes_sent: int = 0
    attempts: int = 0


Send = Callable[["pa.RecordBatch"], Sent]


class Unsayable(ValueError):
    """Raised when rows hold what a destination's format can't say: a foreign table may hold anything."""


def unsayable(batch: pa.RecordBatch, error: Unsayable) -> Sent:
    """The outcome of a request that could not be written: with fewer spans it may be; of one, it is refused."""
    span = batch.column("span_id")[0].as_py() or b""
    return Sent(rejected=batch.num_rows, message=f"span {span.hex()} {error}", divide=True)


def in_pieces(batch: pa.RecordBatch, most: int, send: Send) -> Delivery:
    """Send a batch in requests of at most so many spans; one that is too large is halved until one span is left."""
    waiting = deque(cut(batch, most))
    total = Delivery()
    while waiting:
        piece = waiting.popleft()
        sent = send(piece)
        if sent.divide and piece.num_rows > 1:
            waiting.extendleft(reversed(cut(piece, piece.num_rows // 2)))
            total += Delivery(bytes_sent=sent.bytes_sent, attempts=sent.attempts)
        else:
            total += _delivery(piece.num_rows, sent)
    return total


def cut(batch: pa.RecordBatch, most: int) -> list[pa.RecordBatch]:
    """A batch in parts of at most so many rows; a trace is divided only where it has more than that by itself."""
    count = batch.num_rows
    if count <= most:
        return [batch] if count else []
    ends = np.append(trace_starts(batch)[1:], count)
    pieces, begin = [], 0
    while begin < count:
        whole = int(np.searchsorted(ends, begin + most, side="right"))
        end = int(ends[whole - 1]) if whole and ends[whole - 1] > begin else begin + most
        pieces.append(batch.slice(begin, end - begin))
        begin = end
    return pieces


def trace_starts(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The rows that traces begin at, in a batch that is sorted by trace."""
    return np.flatnonzero(changes(batch.column("trace_id"))) if batch.num_rows else np.array([], dtype=np.int64)


def _delivery(spans: int, sent: Sent) -> Delivery:
    rejected = min(max(sent.rejected, 0), spans)
    messages = (sent.message,) if sent.message else ()
    return Delivery(spans - rejected, rejected, messages, sent.bytes_sent, sent.attempts)
