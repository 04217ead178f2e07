"""Parse a column of messages of which some are malformed, without letting an attacker choose how long that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from neve.receive.refusal import malformed

if TYPE_CHECKING:
    from neve.otlp.wire import Handler

MOST = 100  # malformed records that are told apart; a message with more is malformed as a whole


def without_bad_rows(wire: Handler, column: pa.BinaryArray) -> tuple[pa.RecordBatch, int]:
    """The rows that can be parsed, and how many can't; raises `Refusal` when those are too many."""
    bad = _bad_rows(wire, column)
    if bad:
        good = np.setdiff1d(np.arange(len(column)), np.array(bad))
        column = column.take(pa.array(good))
    return wire.array_to_record_batch(column), len(bad)


def _bad_rows(wire: Handler, column: pa.BinaryArray) -> list[int]:
    """Which rows can't be parsed, found by halving."""
    bad: list[int] = []
    waiting = [(0, len(column))] if len(column) else []
    while waiting:
        start, size = waiting.pop()
        if _parses(wire, column.slice(start, size)):
            continue
        if size > 1:
            half = size // 2
            waiting += [(start + half, size - half), (start, half)]
            continue
        bad.append(start)
        if len(bad) > MOST:
            raise malformed(f"more than {MOST} records of the message are malformed")
    return bad


def _parses(wire: Handler, column: pa.BinaryArray) -> bool:
    try:
        wire.array_to_record_batch(column)
    except ValueError:
        return False
    return True
