"""Columns of times as microseconds, and the windows that contain them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.lake.time_ranges import Ranges

if TYPE_CHECKING:
    import numpy.typing as npt


def to_moments(times: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return a column of timestamps in microseconds since 1970."""
    return np.asarray(pc.cast(pc.cast(times, pa.timestamp("us", "UTC")), pa.int64()))


def windows_in(moments: npt.NDArray[np.int64], micros: int) -> Ranges:
    """Return the windows that contain some times."""
    windows = np.unique(moments // micros)
    if not len(windows):
        return Ranges()
    breaks = np.flatnonzero(np.diff(windows) > 1)
    starts = windows[np.concatenate(([0], breaks + 1))] * micros
    ends = (windows[np.concatenate((breaks, [len(windows) - 1]))] + 1) * micros
    return Ranges.of(zip(starts.tolist(), ends.tolist(), strict=True))
