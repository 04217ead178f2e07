"""What a query may take, and the gate that lets queries in."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prometheus_client import Gauge

from neve.errors import LimitExceeded

if TYPE_CHECKING:
    from neve.query.config import LimitRule, QueryConfig

WAITING = 2  # queries of a key that wait, for each of it that may run: each holds a thread of its server
RUNNING = Gauge("neve_query_running", "queries that have a place")
QUEUED = Gauge("neve_query_waiting", "queries that wait for a place")
NAMES = ("concurrency", "memory", "seconds", "scan_bytes", "rows")


@dataclass(frozen=True)
class Limits:
    """The limits of one query; `None` is no limit."""

    concurrency: int | None = None
    memory: str | None = None
    seconds: float | None = None
    scan_bytes: int | None = None
    rows: int | None = None


def limits_for(config: QueryConfig, organization: str, key_id: str) -> Limits:
    """What the settings say: a rule for the key counts before one for its organization, and that before the rest."""
    limits = Limits(
        concurrency=config.key_concurrency,
        seconds=config.timeout_seconds,
        scan_bytes=config.scan_bytes or None,
        rows=config.result_rows or None,
    )
    fitting = [rule for rule in config.limits if _fits(rule, organization, key_id)]
    for rule in sorted(fitting, key=lambda rule: (bool(rule.key), bool(rule.organization))):
        said = {name: value for name in NAMES if (value := getattr(rule, name)) is not None}
        limits = replace(limits, **said)
    return limits


def _fits(rule: LimitRule, organization: str, key_id: str) -> bool:
    return rule.organization in ("", organization) and rule.key in ("", key_id)


class Gate:
    """Lets so many queries in at a time, of all and of each key; others wait for their turn, a few of each key."""

    def __init__(self, places: int, queue_seconds: float) -> None:
        self._places = places
        self._seconds = queue_seconds
        self._turn = threading.Condition()
        self._inside: Counter[tuple[str, str]] = Counter()
        self._waiting: Counter[tuple[str, str]] = Counter()

    def enter(self, who: tuple[str, str], at_most: int | None) -> None:
        """Wait for a place; raises `LimitExceeded` when none came free in time, or too many of the key wait already."""
        with self._turn:
            if self._is_full(who, at_most):
                self._wait(who, at_most)
            self._inside[who] += 1
            RUNNING.inc()

    def _wait(self, who: tuple[str, str], at_most: int | None) -> None:
        until = time.monotonic() + self._seconds
        if at_most is not None and self._waiting[who] >= at_most * WAITING:
            raise LimitExceeded(
                f"{self._inside[who]} queries of this key run and {self._waiting[who]} wait already",
                limit="concurrency",
                hint="ask again in a while, and fewer at a time",
            )
        self._waiting[who] += 1
        QUEUED.inc()
        try:
            while self._is_full(who, at_most):
                left = until - time.monotonic()
                if left <= 0:
                    raise self._refusal(who, at_most)
                self._turn.wait(left)
        finally:
            QUEUED.dec()
            self._waiting[who] -= 1
            if not self._waiting[who]:
                del self._waiting[who]

    def leave(self, who: tuple[str, str]) -> None:
        """Give the place back."""
        with self._turn:
            RUNNING.dec()
            self._inside[who] -= 1
            if not self._inside[who]:
                del self._inside[who]
            self._turn.notify_all()

    def _is_full(self, who: tuple[str, str], at_most: int | None) -> bool:
        return self._inside.total() >= self._places or (at_most is not None and self._inside[who] >= at_most)

    def _refusal(self, who: tuple[str, str], at_most: int | None) -> LimitExceeded:
        if at_most is not None and self._inside[who] >= at_most:
            words = f"{at_most} queries of this key run already, and none ended within {self._seconds:g} s"
        else:
            words = f"{self._places} queries run already, and none ended within {self._seconds:g} s"
        return LimitExceeded(words, limit="concurrency", hint="ask again in a while")
