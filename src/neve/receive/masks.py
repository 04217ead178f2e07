"""The rules of `neve.otlp.checks` on bare buffers: which records fail, without words and without Arrow's overhead.

A receiver asks them of every message, however small; a property test holds them against the rules themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from neve.otlp.checks import MAX_INT64

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.otlp.batch import Intake

Mask = npt.NDArray[np.bool_]


def bad_ids(ids: pa.BinaryArray, width: int) -> Mask:
    """Ids that do not have their width, or are all zeros."""
    offsets, data = _offsets(ids), ids.buffers()[2]
    if not len(ids) or data is None:
        return np.ones(len(ids), dtype=np.bool_)
    wrong: Mask = np.not_equal(offsets[1:] - offsets[:-1], width)
    values = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    if np.count_nonzero(wrong):
        right = np.flatnonzero(~wrong)
        places = (offsets[right] - offsets[0])[:, None] + np.arange(width)
        wrong[right] = ~values[places].any(axis=1)
        return wrong
    words = values.view(np.uint64).reshape(len(ids), width // 8)
    zero: Mask = np.equal(np.bitwise_or.reduce(words, axis=1), 0)
    return zero


def no_time(unix_nanos: pa.UInt64Array) -> Mask:
    """Times that were not sent."""
    missing: Mask = _numbers(unix_nanos) == 0
    return missing


def in_future(unix_nanos: pa.UInt64Array, intake: Intake) -> Mask:
    """Times too far after the time of arrival."""
    late: Mask = _numbers(unix_nanos) > np.uint64(min(intake.latest_unix_nano, MAX_INT64))
    return late


def no_text(texts: pa.StringArray) -> Mask:
    """Texts that are empty."""
    offsets = _offsets(texts)
    empty: Mask = np.equal(offsets[1:], offsets[:-1])
    return empty


def _offsets(array: pa.BinaryArray | pa.StringArray) -> npt.NDArray[np.int32]:
    if not len(array):
        return np.zeros(1, dtype=np.int32)
    return np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]


def _numbers(array: pa.UInt64Array) -> npt.NDArray[np.uint64]:
    numbers: npt.NDArray[np.uint64] = array.to_numpy(zero_copy_only=True)
    return numbers
