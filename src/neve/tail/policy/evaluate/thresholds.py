"""Sampling thresholds, and how spans carry them: `th` in the tracestate, and `sampling.adjusted_count`.

T has 56 bits, and a trace is kept if R >= T (consistent probability sampling). Of a W3C tracestate, only the member
`ot` is read and written. Members of other vendors stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.lake.attribute_maps import set_map_entry
from neve.tail.policy.evaluate.traces import MAX_THRESHOLD

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.tail.policy.evaluate.traces import Doubles, Unsigned

    Mask = npt.NDArray[np.bool_]

DIGITS = 14  # of 4 bits each

_THRESHOLD = re.compile(r"[0-9a-f]{1,14}")
_RANDOMNESS = re.compile(r"[0-9a-f]{14}")


def to_thresholds(probabilities: Doubles) -> Unsigned:
    """Return T of each probability, rounded, with `MAX_THRESHOLD` (never) only for 0."""
    kept = np.rint(np.clip(probabilities, 0.0, 1.0) * float(MAX_THRESHOLD)).astype(np.uint64)
    kept[(kept == 0) & (probabilities > 0)] = 1
    return np.uint64(MAX_THRESHOLD) - kept


def to_probabilities(thresholds: Unsigned) -> Doubles:
    """Return the probability of R >= T for each T."""
    return (np.uint64(MAX_THRESHOLD) - thresholds).astype(np.float64) / float(MAX_THRESHOLD)


def format_threshold(threshold: int) -> str:
    """Format `th` without trailing zeros, or empty for never, which has no representation."""
    if not 0 <= threshold < MAX_THRESHOLD:
        return ""
    return f"{threshold:014x}".rstrip("0") or "0"


def read_threshold(text: str) -> int | None:
    """Parse T of `th`: 1 to 14 hexadecimal digits in lower case, without trailing zeros, or `None` for other text."""
    return int(text.ljust(DIGITS, "0"), 16) if _THRESHOLD.fullmatch(text) else None


def read_randomness(text: str) -> int | None:
    """Parse R of `rv`: exactly 14 hexadecimal digits in lower case, or `None` for other text."""
    return int(text, 16) if _RANDOMNESS.fullmatch(text) else None


VENDOR = "ot"
MAX_MEMBERS = 32
MAX_VALUE_CHARS = 256  # characters

_KEY = r"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
_MEMBER = re.compile(_KEY + r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
_OT_MEMBER = re.compile(r"[a-z][a-z0-9]*:[A-Za-z0-9._-]*")


@dataclass(frozen=True)
class OtMember:
    """Parsed member `ot`: threshold, random number, and other fields, each `None` or empty if absent."""

    threshold: int | None = None
    randomness: int | None = None
    others: tuple[tuple[str, str], ...] = ()

    def text(self) -> str:
        """Return the value of the member."""
        parts = []
        if self.threshold is not None and self.threshold < MAX_THRESHOLD:
            parts.append(f"th:{format_threshold(self.threshold)}")
        if self.randomness is not None:
            parts.append(f"rv:{self.randomness:014x}")
        return ";".join([*parts, *(f"{key}:{value}" for key, value in self.others)])


EMPTY_MEMBER = OtMember()


def read_ot(tracestate: str | None) -> OtMember:
    """Parse the member `ot`, which is empty if there is none or if any part of the text is invalid."""
    members = _parse_members(tracestate)
    value = None if members is None else dict(members).get(VENDOR)
    return (_parse_ot(value) if value is not None else None) or EMPTY_MEMBER


def write_threshold(tracestate: str | None, threshold: int) -> str:
    """Write `th` into `ot`, which becomes the first member, unless it has a larger `th`, as sampling can't be undone.

    A text that is not a tracestate is unchanged, as is one whose `ot` is invalid or would be too long.
    """
    members = _parse_members(tracestate)
    if members is None:
        return tracestate or ""
    fields = next((_parse_ot(value) for key, value in members if key == VENDOR), EMPTY_MEMBER)
    if fields is None:
        return tracestate or ""
    value = OtMember(max(fields.threshold or 0, threshold), fields.randomness, fields.others).text()
    if not value or len(value) > MAX_VALUE_CHARS:
        return tracestate or ""
    others = [f"{key}={other}" for key, other in members if key != VENDOR]
    return ",".join([f"{VENDOR}={value}", *others[: MAX_MEMBERS - 1]])  # the oldest is removed, as the W3C requires


def write_thresholds(tracestates: pa.Array, thresholds: Unsigned) -> pa.Array:
    """Write T into each text, once for each distinct pair."""
    encoded = tracestates.dictionary_encode(null_encoding="encode")
    texts = encoded.dictionary.to_pylist()
    steps, step_codes = np.unique(thresholds, return_inverse=True)
    pairs = encoded.indices.to_numpy().astype(np.int64) * len(steps) + step_codes
    distinct, codes = np.unique(pairs, return_inverse=True)
    written = [write_threshold(texts[pair // len(steps)], int(steps[pair % len(steps)])) for pair in distinct.tolist()]
    return pa.array(written, pa.string()).take(pa.array(codes))


def _parse_members(tracestate: str | None) -> list[tuple[str, str]] | None:
    """Parse keys and values in order, or return `None` if the text is not a tracestate."""
    stripped = (member.strip(" \t") for member in (tracestate or "").split(","))
    members = [member for member in stripped if member]
    if len(members) > MAX_MEMBERS or not all(_MEMBER.fullmatch(member) for member in members):
        return None
    pairs = [(key, value) for key, _equals, value in (member.partition("=") for member in members)]
    return pairs if len({key for key, _value in pairs}) == len(pairs) else None


def _parse_ot(value: str) -> OtMember | None:
    """Parse a value of `ot`, or return `None` if it is invalid."""
    parts = value.split(";")
    if len(value) > MAX_VALUE_CHARS or not all(_OT_MEMBER.fullmatch(part) for part in parts):
        return None
    pairs = [(key, text) for key, _colon, text in (part.partition(":") for part in parts)]
    fields = dict(pairs)
    threshold, randomness = read_threshold(fields.get("th", "0")), read_randomness(fields.get("rv", "0" * 14))
    if threshold is None or randomness is None or len(fields) != len(pairs):
        return None
    return OtMember(
        threshold if "th" in fields else None,
        randomness if "rv" in fields else None,
        tuple((key, text) for key, text in pairs if key not in {"th", "rv"}),
    )


ADJUSTED_COUNT = "sampling.adjusted_count"
DOUBLE = "double"


def stamp_adjusted_count(
    batch: pa.RecordBatch, adjusted_count: pa.DoubleArray, trace_state: pa.StringArray | None = None
) -> pa.RecordBatch:
    """Return the spans with the attribute `sampling.adjusted_count`, and with the given trace states, if any.

    Both arrays have a value for each row. A row with a null count keeps its attributes.
    """
    text, known = adjusted_count.cast(pa.string()), pc.is_valid(adjusted_count).to_numpy(zero_copy_only=False)
    double = pa.repeat(pa.scalar(DOUBLE), len(text))
    changed = {
        "attributes": set_map_entry(batch.column("attributes"), ADJUSTED_COUNT, text, known),
        "attribute_types": set_map_entry(batch.column("attribute_types"), ADJUSTED_COUNT, double, known),
    }
    if trace_state is not None:
        changed["trace_state"] = trace_state
    columns = [changed.get(field.name, batch.column(field.name)).cast(field.type) for field in batch.schema]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
