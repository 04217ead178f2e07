"""The race: in each round the writer writes, a compactor works and dies, and the rows are looked at."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.service import ServiceError
from tests.race import table
from tests.race.changes import told
from tests.race.child import STALL_SECONDS, Child
from tests.race.deaths import LONGEST_SECONDS, Death, Point
from tests.race.finish import finish
from tests.race.house import TABLE, lake_at
from tests.race.outcome import Outcome
from tests.race.table import Mode
from tests.race.verdict import judge
from tests.race.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Tell = Callable[[str], None]
SETTLED = "recovered a dead run"  # as the product logs it
TWO = 1 / 8  # the share of rounds with two compactors, besides those that need them
APPENDS = 6  # before a compactor is let go
LONGEST_PAUSE_SECONDS = 3.0  # between changes: whoever is disturbed all the time publishes nothing
CHANGES_AFTER = 1  # a death: the next compactor meets a table that has moved


@dataclass(frozen=True)
class Round:
    """What happens in a round; of two deaths the second is that of a compactor that the lease keeps off."""

    number: int
    mode: Mode
    deaths: tuple[Death, ...]


def plan_rounds(deaths: Sequence[Death], rng: random.Random) -> list[Round]:
    """A round for each death; in some of them a second compactor runs, too, and is killed at any time."""
    rounds = []
    for number, death in enumerate(deaths, 1):
        rounds.append(Round(number, rng.choice(list(Mode)), (death, *_second(death, rng))))
    return rounds


def _second(death: Death, rng: random.Random) -> tuple[Death, ...]:
    """One that sleeps needs another one that takes over; one that dies may have one that waits for that."""
    if death.point is Point.STALLED:
        return (Death(None, 1, rng.uniform(STALL_SECONDS, STALL_SECONDS + 2 * LONGEST_SECONDS)),)
    return (Death(None, 1, rng.uniform(0, 2 * LONGEST_SECONDS)),) if rng.random() < TWO else ()


class Race:
    """A table, its writer, and the compactors of this round and of the next."""

    def __init__(self, folder: Path, seed: int, seconds: float, tell: Tell) -> None:
        self.outcome = Outcome()
        self._folder = folder
        self._seconds = seconds
        self._tell = tell
        self._lake = lake_at(folder)
        self._writer = Writer(self._lake, f"race {seed}")
        self._pauses = random.Random(f"pauses {seed}")
        self._children: list[Child] = []

    def run(self, rounds: Sequence[Round]) -> Outcome:
        """All rounds, then an end without kills; stops at the first trouble."""
        started = time.monotonic()
        try:
            table.create(self._lake)
            self._writer.append()
            self._start(rounds[0])
            for place, one in enumerate(rounds):
                self._round(one, rounds[place + 1] if place + 1 < len(rounds) else None)
                if self.outcome.troubles:
                    break
            else:
                self.outcome.troubles += finish(self._lake, self._folder, self._judge, self.outcome)
        except ServiceError as error:
            self.outcome.troubles.append(str(error))
        except Exception as error:  # a change that no race explains, a file that is gone: that is what this looks for
            self.outcome.troubles.append(f"after round {self.outcome.rounds}: {type(error).__name__}: {error}"[:2000])
            self._tell_all(0)
        finally:
            for child in self._children:
                child.kill()
            self._sum_up(time.monotonic() - started)
        return self.outcome

    def _start(self, one: Round) -> None:
        names = [f"compactor-{one.number}{letter}" for letter, _ in zip("ab", one.deaths, strict=False)]
        self._children = [
            Child(name, self._folder, death, self._seconds) for name, death in zip(names, one.deaths, strict=True)
        ]
        for child in self._children:
            child.start()

    def _round(self, one: Round, following: Round | None) -> None:
        began, before = time.monotonic(), len(self._writer.done)
        children = self._children
        table.set_mode(self._lake, one.mode)
        for _ in range(APPENDS):
            self._writer.append()
        for child in children:
            child.let_go()
        while not all(child.is_dead for child in children):
            self._writer.change()
            time.sleep(self._pauses.uniform(0, LONGEST_PAUSE_SECONDS))
        if following is not None:
            self._start(following)
        for _ in range(CHANGES_AFTER):
            self._writer.change()
        self._count(one, children)
        self._judge(f"round {one.number}", before)
        self._tell(self._line(one, children, len(self._writer.done) - before, time.monotonic() - began))

    def _judge(self, when: str, before: int) -> None:
        """Compare what two readers find with what should be there; on a difference, tell everything."""
        expected = self._writer.rows.values()
        verdicts = [
            judge("spark", expected, table.rows_by_spark(self._lake)),
            judge("pyiceberg", expected, table.rows_by_pyiceberg(self._lake)),
        ]
        bad = [f"{when}: {verdict}" for verdict in verdicts if not verdict.good]
        gone = table.files_of(self._lake.table(TABLE)).lost
        if gone:
            bad.append(f"{when}: {len(gone)} files that a snapshot needs are gone: {', '.join(gone[:5])}")
        self.outcome.troubles += bad
        if bad:
            self._tell(f"{when} went wrong")
            self._tell_all(before)

    def _tell_all(self, before: int) -> None:
        """Everything that was done since some change, and the table's own story."""
        for line in (*map(told, self._writer.done[before:]), *table.story(self._lake.table(TABLE))):
            self._tell(f"  {line}")

    def _count(self, one: Round, children: Sequence[Child]) -> None:
        outcome = self.outcome
        outcome.rounds += 1
        for child in children:
            outcome.deaths[str(child.death.point or "any time")] += child.hit
            outcome.missed += not child.hit
            outcome.taken += len(child.events("taken"))
            outcome.count_runs(child.events("end"))
            outcome.count_settled(child.events(SETTLED))
            outcome.count_errors(event["error"] for event in child.events("group failed"))
            outcome.count_errors(event["error"] for event in child.events("error"))
            if not child.events("begin"):
                outcome.troubles.append(f"round {one.number}: a compactor never began\n{child.tail}")
            if child.tail and "Traceback" in child.tail:
                outcome.troubles.append(f"round {one.number}: a compactor fell over\n{child.tail}")

    def _sum_up(self, seconds: float) -> None:
        outcome = self.outcome
        outcome.seconds = seconds
        outcome.changes, outcome.lost = self._writer.kinds, len(self._writer.lost)
        if self._lake.exists:
            now = self._lake.table(TABLE)
            outcome.groups, outcome.compactions = table.groups_published(now), len(table.compactions(now))

    def _line(self, one: Round, children: Sequence[Child], changes: int, seconds: float) -> str:
        how = " and ".join(f"{child.death}{'' if child.hit else ' (not reached)'}" for child in children)
        return (
            f"round {one.number}: {how}, {one.mode}, {changes} changes, {len(self._writer.lost)} lost so far, "
            f"{len(self._writer.rows)} rows, {table.groups_published(self._lake.table(TABLE))} groups so far, "
            f"{sum(len(child.events('end')) for child in children)} runs ended, {seconds:.1f} s"
        )
