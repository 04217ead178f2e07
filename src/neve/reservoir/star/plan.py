"""Which windows are to be sampled, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.reservoir.window import NANOS, Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from neve.reservoir.star.files import RootFile
    from neve.reservoir.star.ledger import Sampled


@dataclass(frozen=True)
class Turn:
    """A window that is to be sampled, from all files that hold records of it."""

    window: Window
    files: tuple[RootFile, ...]
    reason: str
    replaces: Sampled | None = None

    @property
    def records(self) -> int:
        """How many records the window has."""
        return sum(dict(file.windows)[self.window.start_ns] for file in self.files)

    @property
    def generation(self) -> int:
        """How often the window was sampled before; a run that died in the middle of it is done again, not after."""
        return self.replaces.generation + self.replaces.done if self.replaces else 0


@dataclass(frozen=True)
class Plan:
    """What to do, in order of time, and how many windows need nothing or have to wait.

    `gone` are windows that were sampled from files of which none is there any more: what was kept of them stays.
    """

    turns: tuple[Turn, ...]
    current: int
    waiting: int
    other_policy: int
    gone: int = 0


@dataclass(frozen=True)
class Wanted:
    """Which windows a run is about."""

    seconds: int
    now_ns: int
    settle_seconds: int = 0
    since: datetime | None = None
    until: datetime | None = None
    again: bool = False

    def covers(self, window: Window) -> bool:
        """Whether the run is about a window."""
        return window.within(self.since, self.until)

    def is_settled(self, window: Window) -> bool:
        """Whether a window's end is long enough ago."""
        return window.end_ns + self.settle_seconds * NANOS <= self.now_ns or not self.settle_seconds


def plan_windows(files: Iterable[RootFile], known: Mapping[int, Sampled], policy: str, wanted: Wanted) -> Plan:
    """The windows whose files are other ones than they were sampled from, or that were never sampled."""
    by_start: dict[int, list[RootFile]] = {}
    for file in files:
        for start, _count in file.windows:
            by_start.setdefault(start, []).append(file)
    turns, current, waiting, other_policy = [], 0, 0, 0
    for start, found in sorted(by_start.items()):
        window = Window(start, wanted.seconds)
        if not wanted.covers(window):
            continue
        if not wanted.is_settled(window):
            waiting += 1
            continue
        before = known.get(start)
        reason = _reason(before, found, again=wanted.again)
        if reason:
            turns.append(Turn(window, tuple(sorted(found, key=lambda file: file.path)), reason, before))
        else:
            current += 1
            other_policy += before is not None and before.policy != policy
    gone = sum(wanted.covers(Window(start, wanted.seconds)) for start in known.keys() - by_start.keys())
    return Plan(tuple(turns), current, waiting, other_policy, gone)


def _reason(before: Sampled | None, files: list[RootFile], *, again: bool) -> str:
    if before is None:
        return "not sampled yet"
    if not before.done:
        return "a run ended in the middle of it"
    came = {file.identity for file in files} - set(before.files)
    gone = set(before.files) - {file.identity for file in files}
    if came or gone:
        return f"{len(came):,} of its files came or changed since, {len(gone):,} are gone" if gone else _late(len(came))
    return "asked for again" if again else ""


def _late(count: int) -> str:
    return f"{count:,} file{'s' if count > 1 else ''} came late"
