"""Who is killed, and when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random


class Victim(StrEnum):
    """What is killed."""

    RECEIVER = "receiver"
    STREAM = "stream"  # its Python, its JVM and its workers
    DRIVER = "Spark driver"  # the JVM alone: the stream's Python lives to see it


class Moment(StrEnum):
    """From when the time until a kill is counted."""

    START = "was started"
    WORK = "was at work"
    COMMIT = "began its first commit"  # of a batch that goes to three tables, a fraction of a second each


# What may happen to each victim, each as likely as the others, and how long it may take at most.
LONGEST_SECONDS = {
    Victim.RECEIVER: {Moment.START: 3.0, Moment.WORK: 4.0},
    Victim.STREAM: {Moment.START: 10.0, Moment.WORK: 10.0, Moment.COMMIT: 0.3},
    # The JVM of a stream that is still starting may not be there yet.
    Victim.DRIVER: {Moment.WORK: 10.0, Moment.COMMIT: 0.3},
}


@dataclass(frozen=True)
class Kill:
    """A SIGKILL, so many seconds after a moment in the life of its victim."""

    victim: Victim
    moment: Moment
    seconds: float

    def __str__(self) -> str:
        return f"{self.victim}, {self.seconds:.2f} s after it {self.moment}"


def plan_kills(counts: dict[Victim, int], rng: random.Random) -> list[Kill]:
    """So many kills of each victim in a random order; the same for the same seed."""
    victims = [victim for victim, count in counts.items() for _ in range(count)]
    rng.shuffle(victims)
    return [kill_at(victim, rng.choice(list(LONGEST_SECONDS[victim])), rng) for victim in victims]


def kill_at(victim: Victim, moment: Moment, rng: random.Random) -> Kill:
    """A kill at a random time after a moment."""
    return Kill(victim, moment, rng.uniform(0.0, LONGEST_SECONDS[victim][moment]))
