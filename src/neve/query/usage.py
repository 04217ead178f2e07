"""Bytes that the queries of a day read, by organization and key, shared by all servers of a lake."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import structlog

from neve.errors import LakeError, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.lake.documents import Documents
    from neve.query.limits import Limits, Who

log = structlog.get_logger(__name__)

SPACE = "query-usage"
SHARE_SECONDS = 10.0  # how often a server tells the others what its queries read
ATTEMPTS = 5
ALL, NO_KEY = "", "-"  # beside the ids of keys


class DailyUsage:
    """Counts bytes since midnight in UTC; without a store, those of this process alone.

    What a server has read is shared every few seconds, so that several servers together may let a little more through
    than the limit. A store that does not answer lets queries run on: then each server counts for itself.
    """

    def __init__(self, documents: Documents | None, clock: Callable[[], datetime]) -> None:
        self._documents = documents
        self._clock = clock
        self._day = ""
        self._known: dict[str, Counter[str]] = {}  # by organization, then by key
        self._unshared: dict[str, Counter[str]] = {}
        self._shared_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def charge(self, who: Who, size: int, limits: Limits) -> None:
        """Count bytes that a query is about to read; raises `LimitExceeded` where the day's are used up."""
        organization, key = who[0], who[1] or NO_KEY
        if self._is_due(organization):
            if limits.daily_bytes is None and limits.key_daily_bytes is None:
                threading.Thread(target=self._share, args=(organization,), daemon=True).start()
            else:
                self._share(organization)
        with self._lock:
            used = self._known.setdefault(organization, Counter())
            _check("organization", used[ALL], size, limits.daily_bytes)
            _check("key", used[key], size, limits.key_daily_bytes)
            for counts in (self._known, self._unshared):
                counts.setdefault(organization, Counter()).update({ALL: size, key: size})

    def flush(self) -> None:
        """Share what was counted, as a server does before it ends."""
        for organization in tuple(self._unshared):
            self._share(organization)

    def _is_due(self, organization: str) -> bool:
        """Whether an organization's numbers are to be shared now; whoever asks first does it."""
        day = self._clock().strftime("%Y-%m-%d")
        with self._lock:
            if day != self._day:
                self._day = day
                self._known, self._unshared, self._shared_at = {}, {}, {}
                threading.Thread(target=self._forget, args=(day,), daemon=True).start()
            is_due = time.monotonic() >= self._shared_at.get(organization, 0.0)
            if is_due:
                self._shared_at[organization] = time.monotonic() + SHARE_SECONDS
            return is_due

    def _forget(self, day: str) -> None:
        """Remove the numbers of days that are over."""
        if self._documents is None:
            return
        try:
            for key in [key for key, _ in self._documents.entries(SPACE) if key < day]:
                self._documents.delete(SPACE, key)
        except LakeError as error:
            log.warning("the bytes of queries of past days could not be removed", reason=error.message)

    def _share(self, organization: str) -> None:
        """Add what is new to the store's numbers, and take those over; no lock is held while the store is asked."""
        if self._documents is None:
            return
        with self._lock:
            day, added = self._day, self._unshared.pop(organization, Counter())
        try:
            total = _merge(self._documents, f"{day}/{organization}", added)
        except LakeError as error:
            log.warning("the bytes of queries could not be shared", reason=error.message)
            total = None
        with self._lock:
            if day != self._day:
                return
            since = self._unshared.setdefault(organization, Counter())
            if total is None:
                since.update(added)
            else:
                self._known[organization] = total + since


def _merge(documents: Documents, key: str, added: Counter[str]) -> Counter[str] | None:
    """Add numbers to a document, and return its own; `None` where others were always quicker."""
    for _ in range(ATTEMPTS):
        stored = documents.get(SPACE, key)
        total = Counter({name: int(str(count)) for name, count in (stored or {}).items()}) + added
        if not added or documents.swap(SPACE, key, stored, dict(total)):
            return total
    return None


def bytes_of_day(documents: Documents, now: datetime) -> list[tuple[str, int]]:
    """What organizations have read on the day of a time, those first that read most."""
    prefix = f"{now:%Y-%m-%d}/"
    found = [
        (key.removeprefix(prefix), int(str(counts.get(ALL, 0)))) for key, counts in documents.entries(SPACE, prefix)
    ]
    return sorted(found, key=lambda one: -one[1])


def _check(whose: str, used: int, size: int, most: int | None) -> None:
    if most is not None and used + size > most:
        raise LimitExceeded(
            f"the query would read {size:,} bytes of files; {used:,} of the {most:,} bytes that this {whose} may read "
            "in a day are used",
            limit="daily_bytes",
            hint="narrow the time, or ask again after midnight UTC",
        )
