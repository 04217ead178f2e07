"""How much one run may do: each limit by its name, and what is left of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.compact.plan import Cut
from neve.compact.words import money, number, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.compact.config import CompactConfig
    from neve.compact.plan import Estimate, Group

ENDLESS = float("inf")


@dataclass(frozen=True)
class Spending:
    """What some work takes of each limit; seconds are those of one core."""

    bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    dollars: float = 0.0

    @classmethod
    def of(cls, files: int, total: int, estimate: Estimate) -> Spending:
        """What a rewrite takes."""
        return cls(total, files, estimate.seconds, estimate.dollars)

    @classmethod
    def of_all(cls, groups: Iterable[Group]) -> Spending:
        """What the rewrites of some groups take together."""
        return sum((cls.of(len(group.files), group.bytes, group.estimate) for group in groups), cls())

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            self.bytes + other.bytes,
            self.files + other.files,
            self.seconds + other.seconds,
            self.dollars + other.dollars,
        )


@dataclass(frozen=True)
class Limits:
    """The limits of one run; groups that run at the same time share its seconds.

    `dollars` are what is left of an hour's, `hourly_dollars` those of a whole hour.
    """

    bytes: float = ENDLESS
    files: float = ENDLESS
    seconds: float = ENDLESS
    dollars: float = ENDLESS
    concurrency: int = 1
    hourly_dollars: float = 0.0

    @classmethod
    def of(cls, config: CompactConfig, spent_dollars: float = 0.0) -> Limits:
        """What the configuration allows, of which some dollars of this hour may be spent already."""
        return cls(
            bytes=config.max_bytes or ENDLESS,
            files=config.max_files or ENDLESS,
            seconds=config.max_seconds or ENDLESS,
            dollars=max(0.0, config.max_dollars - spent_dollars) if config.max_dollars else ENDLESS,
            concurrency=config.concurrency,
            hourly_dollars=config.max_dollars,
        )

    @property
    def at_best(self) -> Limits:
        """The limits of a run before which no dollars were spent."""
        return replace(self, dollars=max(self.dollars, self.hourly_dollars))

    def broken_by(self, spending: Spending) -> str | None:
        """The first limit that would be passed."""
        checks = (
            ("max_bytes", spending.bytes > self.bytes),
            ("max_files", spending.files > self.files),
            ("max_seconds", spending.seconds / self.concurrency > self.seconds),
            ("max_dollars", spending.dollars > self.dollars),
        )
        return next((name for name, is_passed in checks if is_passed), None)

    def words(self, name: str) -> str:
        """A limit and its value."""
        match name:
            case "max_bytes":
                value = size(self.bytes)
            case "max_files":
                value = number(int(self.files), "file")
            case "max_seconds":
                value = f"{self.seconds:,.0f} s with {number(self.concurrency, 'group')} at a time"
            case _:
                value = f"{money(self.dollars)} left of this hour"
        return f"{name} ({value})"

    def never_allow(self, spending: Spending) -> str | None:
        """The limit that some work passes by itself, so that no run could ever take it."""
        return self.at_best.broken_by(spending) if self.dollars > 0 else None  # else nobody can take anything now

    def cut(self, groups: Sequence[Group], name: str, *, alone: bool) -> Cut:
        """What is said of groups of one partition that a limit does not allow; alone, when no run could take them."""
        files, total = sum(len(group.files) for group in groups), sum(group.bytes for group in groups)
        why = "is less than this takes by itself: raise it" if alone else "is used up"
        reason = f"{number(files, 'file')} of {size(total)} are left for another run: {self.words(name)} {why}"
        return Cut(groups[0].partition, files, total, name, reason)


@dataclass(frozen=True)
class Budget:
    """Limits, and what of them is taken."""

    limits: Limits
    taken: Spending = Spending()

    @property
    def files_left(self) -> float:
        """How many files may still be taken."""
        return self.limits.files - self.taken.files

    def take(self, spending: Spending) -> Budget | str:
        """The budget after some work, or the limit that does not allow it."""
        total = self.taken + spending
        return self.limits.broken_by(total) or Budget(self.limits, total)
