"""What a soak does: how long, how much, and who is killed when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle

LAST_WORDS_SECONDS = 10.0  # after the last recovery there is still some load, to see that all is well


class Victim(StrEnum):
    """Who is killed."""

    RECEIVER = "receiver"
    API = "api"
    TEND = "tend"
    JVM = "jvm"  # Spark's, below the process that tends
    SUPERVISOR = "supervisor"  # alone: what it started has to see that it is gone
    SERVICE = "service"  # all processes of one of two services


PARTS = (Victim.RECEIVER, Victim.API, Victim.TEND, Victim.JVM, Victim.SUPERVISOR)


@dataclass(frozen=True)
class Plan:
    """A run; a service is given `recovery_seconds` after its start and after each kill."""

    seconds: float
    rate: float
    kill: bool = False
    two: bool = False
    commit_seconds: float = 10.0
    sample_seconds: float = 5.0
    recovery_seconds: float = 60.0
    gap_seconds: float = 90.0  # from one kill to the next
    inactivity_seconds: float = 60.0  # until a trace is decided about
    settle_seconds: float = 300.0  # until everything that was acknowledged is in, counted and decided about

    @property
    def kills(self) -> list[tuple[float, Victim]]:
        """When each victim is killed, in seconds from the start."""
        if not (self.kill or self.two):
            return []
        last = self.seconds - self.recovery_seconds - LAST_WORDS_SECONDS
        victims = (Victim.SERVICE,) if self.two else PARTS
        planned: list[tuple[float, Victim]] = []
        at = self.recovery_seconds
        for victim in cycle(victims):
            if at > last:
                return planned
            planned.append((at, victim))
            at += self.gap_seconds
        raise AssertionError

    @property
    def services(self) -> int:
        """How many `neve serve` share the lake."""
        return 2 if self.two else 1
