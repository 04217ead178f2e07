"""Limits of queries: the limits of a key and its organization, and the admission gate."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.errors import LimitExceeded

if TYPE_CHECKING:
    from neve.query.config import LimitRule, QueryConfig


QUEUED_PER_RUNNING = (
    2  # waiting queries of a key or an organization for each that may run: each holds a thread of its server
)
RESERVED = 4  # one slot in so many is reserved for organizations that have none
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


class QueryMeter:
    """Meter of queries. This one counts nothing, for processes without metrics; `metrics.py` has that of servers."""

    def add_running(self, change: int) -> None:
        """Change the number of queries that run."""

    def add_waiting(self, change: int) -> None:
        """Change the number of queries that wait."""

    def count_refused(self, limit: str) -> None:
        """Count a query that exceeded a limit."""


class AdmissionGate:
    """Admission gate: limits concurrent queries in all, per organization and per key.

    A few queries of each key may wait.
    """

    def __init__(self, places: int, queue_seconds: float, meter: QueryMeter | None = None) -> None:
        self._meter = meter or QueryMeter()
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
            self._meter.add_running(1)

    def leave(self, who: Caller) -> None:
        """Release the slot."""
        with self._turn:
            self._meter.add_running(-1)
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
        self._meter.add_waiting(1)
        try:
            while (obstacle := self._crowd.obstacle(who, limits)) or self._is_behind(who):
                left = until - time.monotonic()
                if left <= 0:
                    words = obstacle or "others that run fewer queries come first"
                    raise _refusal(f"{words}, and none ended within {self._seconds:g} s", "retry later")
                self._turn.wait(left)
        finally:
            self._meter.add_waiting(-1)
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
