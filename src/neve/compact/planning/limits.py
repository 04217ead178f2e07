"""Limits of one run (bytes, files, seconds, dollars), and the remaining amounts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.compact.plan import Cut
from neve.text import format_bytes, format_count, format_dollars, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.compact.config import CompactConfig
    from neve.compact.plan import Estimate, Group

UNLIMITED = float("inf")


@dataclass(frozen=True)
class Spending:
    """Share of each limit that some work takes. Seconds are those of one core."""

    bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    dollars: float = 0.0

    @classmethod
    def of(cls, files: int, total: int, estimate: Estimate) -> Spending:
        """Return the spending of a rewrite."""
        return cls(total, files, estimate.seconds, estimate.dollars)

    @classmethod
    def of_all(cls, groups: Iterable[Group]) -> Spending:
        """Return the total spending of the rewrites of groups."""
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
    """The limits of one run. Groups that run at the same time share its seconds.

    `dollars` is the rest of the hourly amount, `hourly_dollars` the whole amount.
    """

    bytes: float = UNLIMITED
    files: float = UNLIMITED
    seconds: float = UNLIMITED
    dollars: float = UNLIMITED
    concurrency: int = 1
    hourly_dollars: float = 0.0

    @classmethod
    def of(cls, config: CompactConfig, spent_dollars: float = 0.0) -> Limits:
        """Return the configured limits, minus the dollars that were spent in this hour."""
        return cls(
            bytes=config.max_bytes or UNLIMITED,
            files=config.max_files or UNLIMITED,
            seconds=config.max_seconds or UNLIMITED,
            dollars=max(0.0, config.max_dollars - spent_dollars) if config.max_dollars else UNLIMITED,
            concurrency=config.concurrency,
            hourly_dollars=config.max_dollars,
        )

    @property
    def at_best(self) -> Limits:
        """Return the limits of a run without earlier spending."""
        return replace(self, dollars=max(self.dollars, self.hourly_dollars))

    def broken_by(self, spending: Spending) -> str | None:
        """Return the first limit that the spending would exceed."""
        checks = (
            ("max_bytes", spending.bytes > self.bytes),
            ("max_files", spending.files > self.files),
            ("max_seconds", spending.seconds / self.concurrency > self.seconds),
            ("max_dollars", spending.dollars > self.dollars),
        )
        return next((name for name, is_passed in checks if is_passed), None)

    def describe(self, name: str) -> str:
        """Return a limit and its value as text."""
        match name:
            case "max_bytes":
                value = format_bytes(self.bytes)
            case "max_files":
                value = format_count(int(self.files), "file")
            case "max_seconds":
                value = f"{format_duration(self.seconds)} with {format_count(self.concurrency, 'group')} at a time"
            case _:
                value = f"{format_dollars(self.dollars)} left of this hour"
        return f"{name} ({value})"

    def never_allow(self, spending: Spending) -> str | None:
        """Return the limit that some work exceeds by itself, so that no run could ever do it."""
        return self.at_best.broken_by(spending) if self.dollars > 0 else None  # else no work is possible now

    def cut(self, groups: Sequence[Group], name: str, *, alone: bool) -> Cut:
        """Describe groups of one partition that a limit does not allow. `alone` is set if no run could do them."""
        files, total = sum(len(group.files) for group in groups), sum(group.bytes for group in groups)
        why = "is less than this needs by itself: raise it" if alone else "is used up"
        what = f"{format_count(files, 'file')} of {format_bytes(total)}"
        reason = f"{what} are postponed to another run: {self.describe(name)} {why}"
        return Cut(groups[0].partition, files, total, name, reason)


@dataclass(frozen=True)
class Budget:
    """Limits, and the spending so far."""

    limits: Limits
    taken: Spending = Spending()

    @property
    def files_left(self) -> float:
        """Number of files that the budget still allows."""
        return self.limits.files - self.taken.files

    def take(self, spending: Spending) -> Budget | str:
        """Return the budget after some work, or the limit that does not allow it."""
        total = self.taken + spending
        return self.limits.broken_by(total) or Budget(self.limits, total)
