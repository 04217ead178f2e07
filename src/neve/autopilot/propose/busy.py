"""Answers of a forge that may be better later: too many requests, an outage, no answer at all."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tenacity import wait_random_exponential

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tenacity import RetryCallState

UNTOLD_LIMIT_SECONDS = 60.0  # how long to wait where a forge limits requests and does not say until when
_back_off = wait_random_exponential(multiplier=0.5, max=30, min=0.05)


class Busy(Exception):
    """Raised by a request that may go better later; `after` is when the forge wants to be asked, in seconds.

    `is_done` is None where nobody can tell whether the request was carried out, and False where it was not.
    """

    def __init__(self, message: str, *, after: float | None = None, is_done: bool | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.after = after
        self.is_done = is_done


def busy_of(status: int, headers: Mapping[str, str], said: str) -> Busy | None:
    """What an answer says about later; none where asking again would not help."""
    if status >= 500:
        return Busy(f"the forge answered {status}: {said}", after=_seconds(headers.get("retry-after")))
    if not _is_limit(status, headers, said):
        return None
    after = _after(headers)
    return Busy(f"the forge limits requests, for {after:.0f} s more: {said}", after=after, is_done=False)


def pause(state: RetryCallState) -> float:
    """The time that the forge asked for, and a random one, so that not all who wait come at once."""
    busy = state.outcome.exception() if state.outcome else None
    return _back_off(state) + (busy.after or 0.0 if isinstance(busy, Busy) else 0.0)


def _is_limit(status: int, headers: Mapping[str, str], said: str) -> bool:
    """GitHub has 403 for limits, too: with a header, or at its secondary limit with no more than words."""
    if status == 429:
        return True
    told = "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"
    return status == 403 and (told or "rate limit" in said.lower())


def _after(headers: Mapping[str, str]) -> float:
    asked = _seconds(headers.get("retry-after"))
    if asked is not None:
        return asked
    reset = _seconds(headers.get("x-ratelimit-reset") or headers.get("ratelimit-reset"))
    return max(0.0, reset - time.time()) if reset is not None else UNTOLD_LIMIT_SECONDS


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None
