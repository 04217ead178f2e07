"""Parse a column of messages so that one malformed value costs only itself."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neve.otlp.wire import Handler


@dataclass(frozen=True)
class Parsed:
    """The rows that could be parsed, where they stood, and what was wrong with the others."""

    batch: pa.RecordBatch
    index: npt.NDArray[np.int64]
    malformed: dict[int, str]


def parse(wire: Handler, column: pa.BinaryArray) -> Parsed:
    """Decode every value that can be decoded."""
    try:
        return Parsed(wire.array_to_record_batch(column), np.arange(len(column)), {})
    except ValueError:
        bad = malformed(wire, column)
    good = np.setdiff1d(np.arange(len(column)), np.fromiter(bad, np.int64, len(bad)))
    return Parsed(wire.array_to_record_batch(column.take(pa.array(good))), good, bad)


def malformed(wire: Handler, column: pa.BinaryArray, first: int = 0) -> dict[int, str]:
    """Which values can't be decoded, and why, found by halving: a few bad ones among many cost little."""
    if len(column) == 0:
        return {}
    try:
        wire.array_to_record_batch(column)
    except ValueError as error:
        if len(column) == 1:
            return {first: str(error)}
        half = len(column) // 2
        return malformed(wire, column.slice(0, half), first) | malformed(wire, column.slice(half), first + half)
    return {}
