"""Why a record that can be decoded is refused: masks over whole columns, and words for the few that fail."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.otlp.batch import Intake

Mask = npt.NDArray[np.bool_]
MAX_INT64 = 2**63 - 1
MOST_SAID = 32  # bytes of an id that a detail repeats; an id may be as long as its message


@dataclass(frozen=True)
class Check:
    """A reason, the rows that it applies to and how to say it of one row."""

    reason: str
    failed: Mask
    detail: Callable[[int], str]


def refusals(checks: list[Check]) -> Iterator[tuple[int, str, str]]:
    """Each row that fails a check, with the reason and the detail of the first check that it fails."""
    seen: set[int] = set()
    for check in checks:
        for row in np.flatnonzero(check.failed).tolist():
            if row not in seen:
                seen.add(row)
                yield row, check.reason, check.detail(row)


def check_id(name: str, ids: pa.BinaryArray, width: int) -> Check:
    """An id must have its width and must not be all zeros."""
    right = pc.and_(pc.equal(pc.binary_length(ids), width), pc.not_equal(ids, bytes(width)))

    def detail(row: int) -> str:
        value = ids[row].as_py()
        said = value[:MOST_SAID].hex() + ("…" if len(value) > MOST_SAID else "")
        return f"{name} is {said or 'empty'!r}, expected {width} bytes that are not all zero"

    return Check(f"invalid_{name}", _not(right), detail)


def check_time(name: str, unix_nanos: pa.UInt64Array, intake: Intake, *, needed: bool) -> list[Check]:
    """A time must be known where it is needed, fit a 64-bit signed integer and not lie far in the future."""
    latest = min(intake.latest_unix_nano, MAX_INT64)
    late = pc.greater(unix_nanos, pa.scalar(latest, pa.uint64())).to_numpy(zero_copy_only=False)

    def in_future(row: int) -> str:
        limit = intake.max_future_nanos // 1_000_000_000
        return f"{name} is {unix_nanos[row].as_py()}, more than {limit} s after it was received"

    def missing(row: int) -> str:
        return f"{name} is {unix_nanos[row].as_py()}, expected the time of the record"

    future = Check("timestamp_in_future", late, in_future)
    if not needed:
        return [future]
    zero = pc.equal(unix_nanos, pa.scalar(0, pa.uint64())).to_numpy(zero_copy_only=False)
    return [Check("missing_time", zero, missing), future]


def check_text(name: str, column: pa.StringArray) -> Check:
    """A text must not be empty."""
    empty = pc.equal(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return Check(f"missing_{name}", empty, lambda row: f"{name} is {column[row].as_py()!r}, expected a name")


def _not(mask: pa.BooleanArray) -> Mask:
    inverted: Mask = ~mask.to_numpy(zero_copy_only=False)
    return inverted
