"""Ids of jobs: later ones are larger, and the store can list them from the latest on."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta

EPOCH = datetime.fromtimestamp(0, UTC)
TIME_DIGITS = 13  # hexadecimal, of microseconds: enough until the year 2112
CHANCE_DIGITS = 5  # two jobs of one microsecond
DIGITS = TIME_DIGITS + CHANCE_DIGITS
_ID = re.compile(f"[0-9a-f]{{{DIGITS}}}")


def new_id(now: datetime) -> str:
    """An id that no other job has."""
    micros = (now - EPOCH) // timedelta(microseconds=1)
    return f"{micros:0{TIME_DIGITS}x}{secrets.randbits(4 * CHANCE_DIGITS):0{CHANCE_DIGITS}x}"


def is_id(text: str) -> bool:
    """Whether a text can be the id of a job."""
    return _ID.fullmatch(text) is not None


def backwards(job_id: str) -> str:
    """A text that is the smaller, the larger the id is.

    >>> backwards("000000000000000000") > backwards("000000000000000001")
    True
    """
    return f"{16**DIGITS - 1 - int(job_id, 16):0{DIGITS}x}"
