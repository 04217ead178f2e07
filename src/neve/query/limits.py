"""Limits of queries: the limits of a key and its organization, the admission gate, and the bytes read in a day.

The bytes of a day are shared by all servers of a lake through the state store.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prometheus_client import Counter as Count
from prometheus_client import Gauge

from neve.errors import LakeError, LimitExceeded
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.query.config import LimitRule, QueryConfig
    from neve.state.documents import Documents


QUEUED_PER_RUNNING = (
    2  # waiting queries of a key or an organization for each that may run: each holds a thread of its server
)
RESERVED = 4  # one slot in so many is reserved for organizations that have none
RUNNING = Gauge("neve_query_running", "queries that have a place")
QUEUED = Gauge("neve_query_waiting", "queries that wait for a place")
REFUSED = Count("neve_query_limited_total", "queries that ran into a limit", ["limit"])
NAMES = ("concurrency", "places", "memory", "seconds", "cpu_seconds", "scan_bytes", "daily_bytes", "rows")

Caller = tuple[str, str]  # an organization, and one of its keys


@dataclass(frozen=True)
class Limits:
    """The limits of one query. `None` is no limit.

    `used_cpu_seconds` is the part of `cpu_seconds` that earlier statements of the query have used.
    """

    concurrency: int | None = None
    places: int | None = None
    memory: str | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    scan_bytes: int | None = None
    daily_bytes: int | None = None
    key_daily_bytes: int | None = None
    rows: int | None = None
    used_cpu_seconds: float = 0.0


def limits_for(config: QueryConfig, organization: str, key_id: str) -> Limits:
    """Return the limits from the settings.

    A rule of the key overrides one of its organization, which overrides the rest.
    """
    limits = Limits(
        concurrency=config.key_concurrency,
        places=config.organization_concurrency,
        seconds=config.timeout_seconds,
        cpu_seconds=config.cpu_seconds or None,
        scan_bytes=config.scan_bytes or None,
        daily_bytes=config.daily_bytes or None,
        rows=config.result_rows or None,
    )
    fitting = [rule for rule in config.limits if _applies(rule, organization, key_id)]
    for rule in sorted(fitting, key=lambda rule: (bool(rule.key), bool(rule.organization))):
        said = {name: value for name in NAMES if (value := getattr(rule, name)) is not None}
        if rule.key and "daily_bytes" in said:  # in addition to those of its organization, not instead of them
            said["key_daily_bytes"] = said.pop("daily_bytes")
        limits = replace(limits, **said)
    return limits


def _applies(rule: LimitRule, organization: str, key_id: str) -> bool:
    return rule.organization in ("", organization) and rule.key in ("", key_id)


@dataclass(frozen=True)
class RunningCounts:
    """Running queries by caller, and the number of slots."""

    places: int
    inside: Counter[Caller]

    def of(self, organization: str) -> int:
        """Return the number of running queries of an organization."""
        return sum(count for who, count in self.inside.items() if who[0] == organization)

    def obstacle(self, who: Caller, limits: Limits) -> str:
        """Return the reason why one more query of a key may not run now, or an empty text if it may.

        The last slots are reserved for organizations that have none, so that no two of them can lock out a third.
        """
        taken, own = self.inside.total(), self.of(who[0])
        if limits.concurrency is not None and self.inside[who] >= limits.concurrency:
            return f"{limits.concurrency} queries of this key run already"
        if limits.places is not None and own >= limits.places:
            return f"{limits.places} queries of this organization run already"
        if taken >= self.places:
            return f"{self.places} queries run already"
        if own and self.places - taken <= self.places // RESERVED:
            return f"{taken} queries run already and the other places are kept for organizations that run none"
        return ""


class AdmissionGate:
    """Admission gate: limits concurrent queries in all, per organization and per key.

    A few queries of each key may wait.
    """

    def __init__(self, places: int, queue_seconds: float) -> None:
        self._seconds = queue_seconds
        self._turn = threading.Condition()
        self._crowd = RunningCounts(places, Counter())
        self._waiting: dict[Caller, list[Limits]] = {}

    def enter(self, who: Caller, limits: Limits) -> None:
        """Wait for a slot.

        Raises `LimitExceeded` if none became free in time, or if too many queries of the key wait already.
        """
        with self._turn:
            if self._crowd.obstacle(who, limits) or self._is_behind(who):
                self._wait(who, limits)
            self._crowd.inside[who] += 1
            RUNNING.inc()

    def leave(self, who: Caller) -> None:
        """Release the slot."""
        with self._turn:
            RUNNING.dec()
            self._crowd.inside[who] -= 1
            if not self._crowd.inside[who]:
                del self._crowd.inside[who]
            self._turn.notify_all()

    def waiting(self, who: Caller) -> int:
        """Return the number of waiting queries of a key."""
        return len(self._waiting.get(who, ()))

    def _wait(self, who: Caller, limits: Limits) -> None:
        until = time.monotonic() + self._seconds
        self._check_queue(who, limits)
        self._waiting.setdefault(who, []).append(limits)
        QUEUED.inc()
        try:
            while (obstacle := self._crowd.obstacle(who, limits)) or self._is_behind(who):
                left = until - time.monotonic()
                if left <= 0:
                    words = obstacle or "others that run fewer queries come first"
                    raise _refusal(f"{words}, and none ended within {self._seconds:g} s", "retry later")
                self._turn.wait(left)
        finally:
            QUEUED.dec()
            self._waiting[who].remove(limits)
            if not self._waiting[who]:
                del self._waiting[who]
            self._turn.notify_all()  # queries that yielded to this one check again

    def _check_queue(self, who: Caller, limits: Limits) -> None:
        """Raise `LimitExceeded` if too many queries of the key, or of all keys of its organization, wait already."""
        organization = who[0]
        together = sum(len(waiting) for other, waiting in self._waiting.items() if other[0] == organization)
        for whose, most, waiting, inside in (
            ("key", limits.concurrency, self.waiting(who), self._crowd.inside[who]),
            ("organization", limits.places, together, self._crowd.of(organization)),
        ):
            if most is not None and waiting >= most * QUEUED_PER_RUNNING:
                words = f"{inside} queries of this {whose} run and {waiting} wait already"
                raise _refusal(words, "retry later, with fewer queries at a time")

    def _is_behind(self, who: Caller) -> bool:
        """Return whether a query of another organization that runs fewer queries waits and could run."""
        own = self._crowd.of(who[0])
        return any(
            other[0] != who[0] and self._crowd.of(other[0]) < own and not self._crowd.obstacle(other, limits)
            for other, waiting in self._waiting.items()
            for limits in waiting[:1]
        )


def _refusal(words: str, hint: str) -> LimitExceeded:
    return LimitExceeded(words, limit="concurrency", hint=hint)


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
            log.warning("the bytes of queries of past days could not be removed", reason=error.message)

    def _share(self, organization: str) -> None:
        """Add new counts to the store, and adopt its totals. No lock is held during the request to the store."""
        if self._documents is None:
            return
        with self._lock:
            day, added = self._day, self._unshared.pop(organization, Counter())
        try:
            total = _add_usage(self._documents, f"{day}/{organization}", added)
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
