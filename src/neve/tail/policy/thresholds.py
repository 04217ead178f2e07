"""Thresholds of consistent probability sampling: T of 56 bits, kept where R >= T, written as `th` in hexadecimal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from neve.tail.policy.traces import MAX_THRESHOLD

if TYPE_CHECKING:
    from neve.tail.policy.traces import Doubles, Unsigned

DIGITS = 14  # of 4 bits each

_THRESHOLD = re.compile(r"[0-9a-f]{1,14}")
_RANDOMNESS = re.compile(r"[0-9a-f]{14}")


def thresholds_of(probabilities: Doubles) -> Unsigned:
    """T of each probability, to the nearest; `MAX_THRESHOLD` (never) only for 0."""
    kept = np.rint(np.clip(probabilities, 0.0, 1.0) * float(MAX_THRESHOLD)).astype(np.uint64)
    kept[(kept == 0) & (probabilities > 0)] = 1
    return np.uint64(MAX_THRESHOLD) - kept


def threshold_of(probability: float) -> int:
    """T of one probability."""
    return int(thresholds_of(np.array([probability]))[0])


def probabilities_of(thresholds: Unsigned) -> Doubles:
    """The chance that R is not under each T."""
    return (np.uint64(MAX_THRESHOLD) - thresholds).astype(np.float64) / float(MAX_THRESHOLD)


def threshold_text(threshold: int) -> str:
    """`th` without trailing zeros; empty for never, which can't be said."""
    if not 0 <= threshold < MAX_THRESHOLD:
        return ""
    return f"{threshold:014x}".rstrip("0") or "0"


def read_threshold(text: str) -> int | None:
    """T of `th`: one to fourteen hexadecimal digits in lower case, zeros left out at the end; None for other text."""
    return int(text.ljust(DIGITS, "0"), 16) if _THRESHOLD.fullmatch(text) else None


def read_randomness(text: str) -> int | None:
    """R of `rv`: exactly fourteen hexadecimal digits in lower case; None for other text."""
    return int(text, 16) if _RANDOMNESS.fullmatch(text) else None
