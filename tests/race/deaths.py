"""How a compactor dies: by itself at a point of its work, or so long after it began a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random


class Point(StrEnum):
    """A point in a run."""

    NOTED_RUN = "noted-run"  # the run is in the journal, and nothing is written
    UNNOTED = "unnoted"  # a group's files are written, the journal does not know of them
    WRITTEN = "written"  # the journal knows
    PUBLISHING = "publishing"  # it is noted that a commit comes; it did not begin
    COMMITTING = "committing"  # so many seconds after the commit began
    ORPHANED = "orphaned"  # the same, but Python alone dies, and the JVM goes on until it notices
    STALLED = "stalled"  # before a commit it sleeps for longer than its lease, and dies some time after it woke up
    COMMITTED = "committed"  # it has happened, and is not noted
    NOTED = "noted"  # it is noted, too
    SWEEPING = "sweeping"  # before files that are nobody's are removed
    SWEPT = "swept"  # afterwards
    ENDING = "ending"  # the run's groups are forgotten, the run is not


LONGEST_SECONDS = 6.0
# How long it lives on after some points, at most.
LIVES_ON = {Point.COMMITTING: 0.4, Point.ORPHANED: 0.4, Point.STALLED: 4.0}
BY_TIME = 0.35  # the share of deaths that come at a random time


@dataclass(frozen=True)
class Death:
    """When it comes: the `number`th time that a run passes the point, or begins where there is no point."""

    point: Point | None
    number: int
    seconds: float = 0.0

    def __str__(self) -> str:
        where = self.point or "begin"
        return f"{where}:{self.number}" + (f"+{self.seconds:.2f}s" if self.seconds else "")

    @property
    def words(self) -> str:
        """What the child is told."""
        return f"{self.point}:{self.number}:{self.seconds}" if self.point else ""

    @classmethod
    def of(cls, words: str) -> Death:
        """What the child was told."""
        point, number, seconds = words.split(":")
        return cls(Point(point), int(number), float(seconds))


def draw_deaths(count: int, rng: random.Random) -> list[Death]:
    """Deaths of every kind: the points take turns in a random order, and random times come between them."""
    points: list[Point] = []
    deaths = []
    for _ in range(count):
        if rng.random() < BY_TIME:
            deaths.append(Death(None, rng.choice((1, 1, 2)), rng.uniform(0, LONGEST_SECONDS)))
            continue
        points = points or rng.sample(list(Point), len(Point))
        deaths.append(death_at(points.pop(), rng))
    return deaths


def death_at(point: Point, rng: random.Random) -> Death:
    """A death at a point, soon or a little later."""
    return Death(point, rng.choice((1, 1, 1, 2)), rng.uniform(0, LIVES_ON.get(point, 0.0)))
