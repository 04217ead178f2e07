"""Parse a column of messages of which some are malformed, without letting an attacker choose how long that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from neve.otlp.parse import others, unsafe
from neve.otlp.wire import read
from neve.receive.reduced import reduced, reduced_class
from neve.receive.refusal import Refusal, malformed

if TYPE_CHECKING:
    from neve.otlp.wire import Handler

MOST = 100  # malformed records that are told apart; a message with more is malformed as a whole


def without_bad_rows(name: str, column: pa.BinaryArray, *, parted: bool = False) -> tuple[pa.RecordBatch, int]:
    """The rows that can be parsed as reduced messages, and how many can't; raises `Refusal` when those are too many."""
    harmful = unsafe(reduced_class(name, parted=parted), column)
    if len(harmful) > MOST:
        raise _too_many()
    column = column.take(pa.array(others(len(column), harmful))) if harmful else column
    wire = reduced(name, parted=parted)
    bad = _bad_rows(wire, column)
    if bad:
        column = column.take(pa.array(others(len(column), bad)))
    return read(wire, column), len(bad) + len(harmful)


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
            raise _too_many()
    return bad


def _parses(wire: Handler, column: pa.BinaryArray) -> bool:
    try:
        read(wire, column)
    except ValueError:
        return False
    return True


def _too_many() -> Refusal:
    return malformed(f"more than {MOST} records of the message are malformed")
