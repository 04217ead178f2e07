"""THE INCIDENT: a release of `payment` leaks database connections until its pool is empty, and is rolled back.

The release starts shortly before the window. Its connections leak while everything still looks healthy. From the
start of the window the pool is exhausted: every charge waits for a connection, and some time out. At the end of the
window the release is rolled back. Each phase is visible in the telemetry: the version on the resources, the gauges of
the pool, the waiting spans, the log lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from neve.demo.spans import MINUTE, SECOND, Interval
from neve.demo.topology import NANOS_PER_MS, Failure, Pool
from neve.errors import ConfigError

if TYPE_CHECKING:
    import random

CENTRE = 37 / 60  # of the run: minute 37 of an hour
LENGTH = 6 / 60  # of the run: six minutes of an hour
LEAD = 1 / 6  # of the window: the release starts a minute before an incident of six minutes

FAILURE_RATE = 0.35  # of requests that get no connection before the pool's timeout
WAIT_MEDIAN_MS = 580.0  # of requests that get one: with the failures, a charge of 45 ms takes about 20 times as long
WAIT_SIGMA = 0.7


class Wait(NamedTuple):
    """The time that a request waited for a connection, and the failure if it timed out."""

    nanos: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Incident:
    """The affected service, its bad release, and the window."""

    service: str
    good_version: str
    bad_version: str
    deployed: int
    window: Interval

    def active(self, service: str, at: int) -> bool:
        """Return whether the service's pool is exhausted at the instant."""
        return service == self.service and self.window.contains(at)

    def is_leaking_release(self, service: str, version: str) -> bool:
        """Return whether this is the leaking release."""
        return (service, version) == (self.service, self.bad_version)

    def leaked_share(self, at: int) -> float:
        """Return the leaked share of the pool: none before the release, all in the window."""
        if not self.deployed <= at < self.window.end:
            return 0.0
        return min(1.0, (at - self.deployed) / max(1, self.window.start - self.deployed))


def plan_incident(start: int, minutes: int, *, minute: float | None = None, length: float | None = None) -> Incident:
    """Place the incident in a run: around minute 37 of an hour for six minutes, or at the same share of a shorter run.

    `minute` (the middle) and `length` place it elsewhere. Times are whole seconds, so that a query can name them.
    Raises ConfigError if the incident would be outside the run.
    """
    middle = CENTRE * minutes if minute is None else minute
    half = (LENGTH * minutes if length is None else length) / 2
    begin, end = (start + round(at * MINUTE / SECOND) * SECOND for at in (middle - half, middle + half))
    if not start < begin < end <= start + minutes * MINUTE:
        message = (
            f"incident of {2 * half:g} minutes around minute {middle:g} is not within the run of {minutes} minutes"
        )
        raise ConfigError(message)
    deployed = max(start, begin - round((end - begin) * LEAD / SECOND) * SECOND)
    return Incident("payment", "2.14.3", "2.15.0", deployed, Interval(begin, end))


def wait_for_connection(rng: random.Random, pool: Pool) -> Wait:
    """Draw the wait for a connection of an exhausted pool: a long wait, or the pool's timeout."""
    if rng.random() < FAILURE_RATE:
        return Wait(pool.timeout_ms * NANOS_PER_MS, make_exhausted_failure(pool, waiting=rng.randint(1, 3)))
    millis = WAIT_MEDIAN_MS * math.exp(WAIT_SIGMA * rng.gauss(0.0, 1.0))
    return Wait(int(min(millis, pool.timeout_ms - 5) * NANOS_PER_MS), None)


def make_exhausted_failure(pool: Pool, waiting: int) -> Failure:
    """Return the error that the pool raises without a free connection."""
    message = (
        f"{pool.name} - Connection is not available, request timed out after {pool.timeout_ms}ms "
        f"(total={pool.size}, active={pool.size}, idle=0, waiting={waiting})"
    )
    return Failure("java.sql.SQLTransientConnectionException", message, "UNAVAILABLE")
