"""Bytes that the queries of organizations and keys read in a day, shared by all servers of a lake.

The counts are in the state store.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from neve.errors import LakeError, LimitExceeded
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.query.limits import Caller, Limits
    from neve.state.documents import Documents


log = get_logger(__name__)

SPACE = "query-usage"
SHARE_SECONDS = 10.0  # interval at which a server shares the bytes of its queries with the others
SHARE_ATTEMPTS = 5
ALL, NO_KEY = "", "-"  # beside the ids of keys


class DailyUsage:
    """Bytes read since midnight UTC. Without a store, only those of this process.

    A server shares its count every few seconds, so several servers together may exceed the limit slightly. If the store
    does not respond, queries continue and each server counts for itself.
    """

    def __init__(self, documents: Documents | None, clock: Callable[[], datetime]) -> None:
        self._documents = documents
        self._clock = clock
        self._day = ""
        self._known: dict[str, Counter[str]] = {}  # by organization, then by key
        self._unshared: dict[str, Counter[str]] = {}
        self._shared_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def charge(self, who: Caller, size: int, limits: Limits) -> None:
        """Add the bytes that a query is about to read. Raises `LimitExceeded` if the daily limit is reached."""
        organization, key = who[0], who[1] or NO_KEY
        if self._is_due(organization):
            if limits.daily_bytes is None and limits.key_daily_bytes is None:
                threading.Thread(target=self._share, args=(organization,), daemon=True).start()
            else:
                self._share(organization)
        with self._lock:
            used = self._known.setdefault(organization, Counter())
            _check_daily_bytes("organization", used[ALL], size, limits.daily_bytes)
            _check_daily_bytes("key", used[key], size, limits.key_daily_bytes)
            for counts in (self._known, self._unshared):
                counts.setdefault(organization, Counter()).update({ALL: size, key: size})

    def flush(self) -> None:
        """Share the counts, as a server does before it ends."""
        for organization in tuple(self._unshared):
            self._share(organization)

    def _is_due(self, organization: str) -> bool:
        """Return whether an organization's counts must be shared now. Only the first caller gets `True`."""
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
        """Remove the counts of past days."""
        if self._documents is None:
            return
        try:
            for key in [key for key, _ in self._documents.entries(SPACE) if key < day]:
                self._documents.delete(SPACE, key)
        except LakeError as error:
            log.warning("can't delete the daily byte counts of past days", reason=error.message)

    def _share(self, organization: str) -> None:
        """Add new counts to the store, and adopt its totals. No lock is held during the request to the store."""
        if self._documents is None:
            return
        with self._lock:
            day, added = self._day, self._unshared.pop(organization, Counter())
        try:
            total = _add_usage(self._documents, f"{day}/{organization}", added)
        except LakeError as error:
            log.warning("can't synchronize the daily byte counts of queries", reason=error.message)
            total = None
        with self._lock:
            if day != self._day:
                return
            since = self._unshared.setdefault(organization, Counter())
            if total is None:
                since.update(added)
            else:
                self._known[organization] = total + since


def _add_usage(documents: Documents, key: str, added: Counter[str]) -> Counter[str] | None:
    """Add counts to a document and return its totals, or `None` if concurrent writers won every attempt."""
    for _ in range(SHARE_ATTEMPTS):
        stored = documents.get(SPACE, key)
        total = Counter({name: int(str(count)) for name, count in (stored or {}).items()}) + added
        if not added or documents.swap(SPACE, key, stored, dict(total)):
            return total
    return None


def bytes_of_day(documents: Documents, now: datetime) -> list[tuple[str, int]]:
    """Return the bytes that organizations have read on the day of a time, largest first."""
    prefix = f"{now:%Y-%m-%d}/"
    found = [
        (key.removeprefix(prefix), int(str(counts.get(ALL, 0)))) for key, counts in documents.entries(SPACE, prefix)
    ]
    return sorted(found, key=lambda one: -one[1])


def _check_daily_bytes(whose: str, used: int, size: int, most: int | None) -> None:
    if most is not None and used + size > most:
        raise LimitExceeded(
            f"the query would read {size:,} bytes of files; {used:,} of the {most:,} bytes that this {whose} may read "
            "in a day are used",
            limit="daily_bytes",
            hint="narrow the time range, or retry after midnight UTC",
        )
