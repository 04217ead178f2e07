"""Sentences for many traces at once, in Arrow."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.tail.policy.traces import Doubles, Integers, Unsigned

_STEPS = 10_000  # how finely a random number is told
_STEP_TEXTS = pa.array([f"{step / _STEPS:.4f}" for step in range(_STEPS + 1)])


def repeated(text: str, count: int) -> pa.Array:
    """The same text for each."""
    return pa.repeat(pa.scalar(text, pa.string()), count)


def joined(count: int, *pieces: str | pa.Array) -> pa.Array:
    """Pieces one after the other; a plain text is the same for each."""
    if not count:
        return pa.array([], pa.string())
    return pc.binary_join_element_wise(*(pa.scalar(p) if isinstance(p, str) else p for p in pieces), "")


def scattered(groups: Sequence[tuple[Integers, pa.Array]], count: int) -> pa.Array:
    """Texts of groups, each at the places of its group."""
    if not groups:
        return pa.array([], pa.string())
    order = np.empty(count, dtype=np.int64)
    order[np.concatenate([places for places, _texts in groups])] = np.arange(count)
    return pa.concat_arrays([texts for _places, texts in groups]).take(pa.array(order))


def numbers(values: Integers) -> pa.Array:
    """Whole numbers with separators of thousands."""
    distinct, which = np.unique(values, return_inverse=True)
    return pa.array([f"{value:,}" for value in distinct.tolist()], pa.string()).take(pa.array(which))


def one_in(chances: Doubles) -> pa.Array:
    """How many there are for one that is kept."""
    distinct, which = np.unique(chances, return_inverse=True)
    return pa.array([f"{1 / chance:,.1f}" for chance in distinct.tolist()], pa.string()).take(pa.array(which))


def drawn(values: Unsigned) -> pa.Array:
    """Numbers of 56 bits as parts of one, cut after four digits."""
    steps = (values >> np.uint64(16)) * np.uint64(_STEPS) >> np.uint64(40)  # 40 bits are enough, and leave room
    return _STEP_TEXTS.take(pa.array(steps))


def clock(seconds: int) -> str:
    """The time of day, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")
