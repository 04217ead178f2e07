"""W3C `tracestate`: the member `ot` is read and its `th` is written; what others wrote stays as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.tail.policy.thresholds import read_randomness, read_threshold, threshold_text
from neve.tail.policy.traces import MAX_THRESHOLD

if TYPE_CHECKING:
    from neve.tail.policy.traces import Bools, Unsigned

VENDOR = "ot"
MOST_MEMBERS = 32
LONGEST_VALUE = 256  # characters

_KEY = r"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
_MEMBER = re.compile(_KEY + r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
_OT_MEMBER = re.compile(r"[a-z][a-z0-9]*:[A-Za-z0-9._-]*")


@dataclass(frozen=True)
class OtMember:
    """What `ot` says: a threshold, a random number, and whatever else, each None or empty where it is not said."""

    threshold: int | None = None
    randomness: int | None = None
    others: tuple[tuple[str, str], ...] = ()

    def text(self) -> str:
        """As the member's value."""
        parts = []
        if self.threshold is not None and self.threshold < MAX_THRESHOLD:
            parts.append(f"th:{threshold_text(self.threshold)}")
        if self.randomness is not None:
            parts.append(f"rv:{self.randomness:014x}")
        return ";".join([*parts, *(f"{key}:{value}" for key, value in self.others)])


NOTHING = OtMember()


def read_ot(tracestate: str | None) -> OtMember:
    """What the member `ot` says; nothing where there is none or where anything in the text breaks its grammar."""
    members = _members(tracestate)
    value = None if members is None else dict(members).get(VENDOR)
    return (_ot(value) if value is not None else None) or NOTHING


def write_threshold(tracestate: str | None, threshold: int) -> str:
    """The text with `th` in `ot`, which goes first; a larger `th` that is there stays, for nothing undoes sampling.

    A text that is not a tracestate, or an `ot` that can't be read or would be too long, is left as it is.
    """
    members = _members(tracestate)
    if members is None:
        return tracestate or ""
    said = next((_ot(value) for key, value in members if key == VENDOR), NOTHING)
    if said is None:
        return tracestate or ""
    value = OtMember(max(said.threshold or 0, threshold), said.randomness, said.others).text()
    if not value or len(value) > LONGEST_VALUE:
        return tracestate or ""
    others = [f"{key}={other}" for key, other in members if key != VENDOR]
    return ",".join([f"{VENDOR}={value}", *others[: MOST_MEMBERS - 1]])  # the oldest goes, as the W3C asks


def read_ots(tracestates: pa.Array) -> tuple[Unsigned, Unsigned, Bools]:
    """For each text T and R (0 without one), and whether there was an R; each distinct text is read once."""
    thresholds, randomness = (np.zeros(len(tracestates), dtype=np.uint64) for _array in range(2))
    has_randomness = np.zeros(len(tracestates), dtype=np.bool_)
    may_say = pc.fill_null(pc.match_substring(tracestates, f"{VENDOR}="), False)
    places = np.flatnonzero(may_say.to_numpy(zero_copy_only=False))
    if not len(places):
        return thresholds, randomness, has_randomness
    distinct = tracestates.take(pa.array(places)).dictionary_encode()
    codes = distinct.indices.to_numpy()
    said = [read_ot(text) for text in distinct.dictionary.to_pylist()]
    thresholds[places] = np.array([ot.threshold or 0 for ot in said], dtype=np.uint64)[codes]
    randomness[places] = np.array([ot.randomness or 0 for ot in said], dtype=np.uint64)[codes]
    has_randomness[places] = np.array([ot.randomness is not None for ot in said])[codes]
    return thresholds, randomness, has_randomness


def with_thresholds(tracestates: pa.Array, thresholds: Unsigned) -> pa.Array:
    """Each text with its T; each distinct pair is written once."""
    encoded = tracestates.dictionary_encode(null_encoding="encode")
    texts = encoded.dictionary.to_pylist()
    steps, step_codes = np.unique(thresholds, return_inverse=True)
    pairs = encoded.indices.to_numpy().astype(np.int64) * len(steps) + step_codes
    distinct, codes = np.unique(pairs, return_inverse=True)
    written = [write_threshold(texts[pair // len(steps)], int(steps[pair % len(steps)])) for pair in distinct.tolist()]
    return pa.array(written, pa.string()).take(pa.array(codes))


def _members(tracestate: str | None) -> list[tuple[str, str]] | None:
    """Keys and values in order; None where the text is not a tracestate."""
    stripped = (member.strip(" \t") for member in (tracestate or "").split(","))
    members = [member for member in stripped if member]
    if len(members) > MOST_MEMBERS or not all(_MEMBER.fullmatch(member) for member in members):
        return None
    pairs = [(key, value) for key, _equals, value in (member.partition("=") for member in members)]
    return pairs if len({key for key, _value in pairs}) == len(pairs) else None


def _ot(value: str) -> OtMember | None:
    """What a value of `ot` says, or None where it breaks the grammar."""
    parts = value.split(";")
    if len(value) > LONGEST_VALUE or not all(_OT_MEMBER.fullmatch(part) for part in parts):
        return None
    pairs = [(key, text) for key, _colon, text in (part.partition(":") for part in parts)]
    said = dict(pairs)
    threshold, randomness = read_threshold(said.get("th", "0")), read_randomness(said.get("rv", "0" * 14))
    if threshold is None or randomness is None or len(said) != len(pairs):
        return None
    return OtMember(
        threshold if "th" in said else None,
        randomness if "rv" in said else None,
        tuple((key, text) for key, text in pairs if key not in {"th", "rv"}),
    )
