"""THE INCIDENT: a release of `payment` leaks database connections until its pool is empty, and is rolled back.

The release goes out shortly before the window; its connections leak away while all still looks well; from the
window's start the pool is exhausted, so that every charge waits for a connection, some in vain; at its end the
release is rolled back. Each of these leaves a trace of its own: the version on the resources, the pool's gauges, the
waiting spans, the log lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from neve.demo.failure import Failure
from neve.demo.interval import MINUTE, SECOND, Interval
from neve.demo.topology import NANOS_PER_MS, Pool
from neve.errors import ConfigError

if TYPE_CHECKING:
    import random

CENTRE = 37 / 60  # of the run: minute 37 of an hour
LENGTH = 6 / 60  # of the run: six minutes of an hour
LEAD = 1 / 6  # of the window: the release goes out a minute before six bad ones

FAILURE_RATE = 0.35  # of borrowers that get no connection before the pool's timeout
WAIT_MEDIAN_MS = 580.0  # of those that get one: with the failures, a charge of 45 ms takes about 20 times as long
WAIT_SIGMA = 0.7


class Wait(NamedTuple):
    """How long a borrower waited, and the failure if it waited in vain."""

    nanos: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Incident:
    """Which service suffers, from which release, and when."""

    service: str
    good_version: str
    bad_version: str
    deployed: int
    window: Interval

    def active(self, service: str, at: int) -> bool:
        """Tell whether the service's pool is exhausted at the instant."""
        return service == self.service and self.window.contains(at)

    def caused_by(self, service: str, version: str) -> bool:
        """Tell whether this is the release that leaks."""
        return (service, version) == (self.service, self.bad_version)

    def leaked(self, at: int) -> float:
        """Return the share of the pool that has leaked away: none before the release, all in the window."""
        if not self.deployed <= at < self.window.end:
            return 0.0
        return min(1.0, (at - self.deployed) / max(1, self.window.start - self.deployed))


def plan_incident(start: int, minutes: int, *, minute: float | None = None, length: float | None = None) -> Incident:
    """Place the incident in a run: around minute 37 of an hour for six minutes, or as far into a shorter run.

    `minute` (the middle) and `length` place it elsewhere. Whole seconds, so that a question can name them.
    Raises ConfigError if it would not lie in the run.
    """
    middle = CENTRE * minutes if minute is None else minute
    half = (LENGTH * minutes if length is None else length) / 2
    begin, end = (start + round(at * MINUTE / SECOND) * SECOND for at in (middle - half, middle + half))
    if not start < begin < end <= start + minutes * MINUTE:
        message = (
            f"incident of {2 * half:g} minutes around minute {middle:g} does not lie in a run of {minutes} minutes"
        )
        raise ConfigError(message)
    deployed = max(start, begin - round((end - begin) * LEAD / SECOND) * SECOND)
    return Incident("payment", "2.14.3", "2.15.0", deployed, Interval(begin, end))


def wait_for_connection(rng: random.Random, pool: Pool) -> Wait:
    """Draw what happens to a borrower of an exhausted pool: a long wait, or the pool's timeout."""
    if rng.random() < FAILURE_RATE:
        return Wait(pool.timeout_ms * NANOS_PER_MS, exhausted(pool, waiting=rng.randint(1, 3)))
    millis = WAIT_MEDIAN_MS * math.exp(WAIT_SIGMA * rng.gauss(0.0, 1.0))
    return Wait(int(min(millis, pool.timeout_ms - 5) * NANOS_PER_MS), None)


def exhausted(pool: Pool, waiting: int) -> Failure:
    """Return the pool's own words for having no connection to give."""
    message = (
        f"{pool.name} - Connection is not available, request timed out after {pool.timeout_ms}ms "
        f"(total={pool.size}, active={pool.size}, idle=0, waiting={waiting})"
    )
    return Failure("java.sql.SQLTransientConnectionException", message, "UNAVAILABLE")
