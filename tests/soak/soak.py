"""The soak: start, send, watch, kill, wait until everything is in, judge."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from neve.demo.live import LiveSender
from neve.demo.recording import make_recording
from neve.model.signals import Signal
from tests.chaos.service import ServiceError
from tests.soak import tables
from tests.soak.acks import Acks
from tests.soak.backing import Backing
from tests.soak.house import GRACE_SECONDS, House
from tests.soak.killer import Killer
from tests.soak.recovery import Returns
from tests.soak.sampler import Sampler
from tests.soak.shared import shared_state
from tests.soak.tally import tally
from tests.soak.verdict import Finals, Run
from tests.soak.watermark import DECIDED, ROLLUPS, commits_since
from tests.soak.work import work_troubles

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake
    from tests.soak.plan import Plan

PROGRESS_SECONDS = 30.0
LOOK_SECONDS = 0.5
ACKNOWLEDGE_SECONDS = 120.0
SETTLE_LOOK_SECONDS = 5.0
END_SECONDS = 90.0
MINUTE = 60.0

Tell = Callable[[str], None]


class Soak:
    """One run in a folder."""

    def __init__(self, plan: Plan, folder: Path, tell: Tell) -> None:
        self.plan = plan
        self._folder = folder
        self._tell = tell
        self._troubles: list[str] = []
        self._acks = Acks()

    def run(self) -> Run:
        """Do all of it."""
        with ExitStack() as parts:
            reel = make_recording(self.plan.rate)
            shared = parts.enter_context(shared_state(self._tell)) if self.plan.two else {}
            backing = Backing.of(shared)
            self._tell(str(backing))
            houses = self._start(shared, parts)
            live = LiveSender(reel, [house.receiver for house in houses], self._acks.add)
            return replace(self._send(houses, live), backing=backing)

    def _start(self, shared: dict[str, Any], parts: ExitStack) -> list[House]:
        houses = [House(self._folder, self.plan, number + 1, shared) for number in range(self.plan.services)]
        houses[0].init()
        for house in houses:
            parts.callback(house.sweep)
            house.service.start()
        for house in houses:
            self._tell(f"{house.name}: {house.await_addresses()}")
        return houses

    def _send(self, houses: list[House], live: LiveSender) -> Run:
        sampler = Sampler(houses, self.plan.sample_seconds)
        killer = Killer(houses, self._acks, started := time.time())
        began = time.monotonic()
        live.start()
        sampler.start()
        try:
            self._watch(houses, sampler, killer, live)
        except ServiceError as error:
            self._troubles.append(str(error))
        finally:
            sent = time.monotonic() - began
            finished = live.stop(ACKNOWLEDGE_SECONDS)
        if not finished:
            self._troubles.append(f"not everything was acknowledged {ACKNOWLEDGE_SECONDS:g} s after the end")
        finals = self._settle(houses, live)
        sampler.end()
        for words in sampler.errors:
            self._tell(f"a look failed: {words}")
        returns = Returns(*(commits_since(houses[0].lake, kind, started) for kind in (ROLLUPS, DECIDED)))
        return Run(self.plan, sampler.samples, killer.recoveries, finals, sent, len(sampler.errors), returns)

    def _watch(self, houses: list[House], sampler: Sampler, killer: Killer, live: LiveSender) -> None:
        """Let the time pass; kills are waited for, so that there is one at a time."""
        began, told, kills = time.monotonic(), 0.0, list(self.plan.kills)
        while (passed := time.monotonic() - began) < self.plan.seconds:
            if kills and passed >= kills[0][0]:
                self._tell(str(killer.kill(kills.pop(0)[1])))
                continue
            for house in houses:
                if house.service.ended:
                    raise ServiceError(f"{house.name} ended with {house.service.exit_code}\n{house.service.tail()}")
            if passed - told >= PROGRESS_SECONDS:
                told = passed
                self._tell(_progress(passed, sampler, live))
            time.sleep(LOOK_SECONDS)

    def _settle(self, houses: list[House], live: LiveSender) -> Finals:
        """Wait until all is in, as long as that is worth it; then end the services as one should."""
        # Windows that were still open when the last records came wait for the next ones.
        closed = (time.time() - GRACE_SECONDS - 2 * MINUTE) // MINUTE * MINUTE
        house = houses[0]
        self._await("records", lambda lake: self._missing(lake, live), house)
        wrong = self._await("rollups", lambda lake: tables.rollup_wrong(lake, closed), house)
        undecided = self._await("decisions", tables.undecided, house)
        self._end(houses)
        lake = house.lake
        tallies = {kind.table: tally(self._acks.keys(live.playback, kind), tables.keys(lake, kind)) for kind in Signal}
        documents = house.documents
        try:
            self._troubles += work_troubles(documents, lake)
        finally:
            documents.close()
        self._troubles += [*live.sent.refusals, *tables.quarantined(lake)]
        return Finals(
            tallies,
            rollup_wrong=wrong,
            undecided=undecided,
            decided_twice=tables.decided_twice(lake),
            errors=sum(house.errors for house in houses),
            troubles=tuple(self._troubles),
        )

    def _await(self, what: str, missing: Callable[[Lake], int], house: House) -> int:
        """How many are still missing when none is, or when it has taken too long."""
        began = time.monotonic()
        while (count := missing(house.lake)) and time.monotonic() - began < self.plan.settle_seconds:
            time.sleep(SETTLE_LOOK_SECONDS)
        self._tell(f"{what}: {count:,} missing {time.monotonic() - began:.0f} s after the end")
        return count

    def _missing(self, lake: Lake, live: LiveSender) -> int:
        rows = {kind: tables.number(lake, f"SELECT count(*) FROM {{{kind.table}}}") for kind in Signal}
        return sum(max(0, live.sent.records[kind] - count) for kind, count in rows.items())

    def _end(self, houses: list[House]) -> None:
        for house in houses:
            try:
                code = house.service.end(END_SECONDS)
            except ServiceError as error:
                self._troubles.append(str(error))
                continue
            if code:
                self._troubles.append(f"{house.name} ended with {code}\n{house.service.tail()}")


def _progress(passed: float, sampler: Sampler, live: LiveSender) -> str:
    sent = f"{sum(live.sent.records.values()):,} records, {live.sent.retries:,} sent again"
    if not sampler.samples:
        return f"{passed:.0f} s: {sent}"
    last = sampler.samples[-1]
    lags = ", ".join(f"{table} {lag:.0f} s" for table, lag in last.lags.items())
    files = ", ".join(f"{table} {count}" for table, count in last.files.items())
    memory = ", ".join(f"{role} {held / 1e6:.0f}" for role, held in last.memory.items())
    later = f"rollup {_seconds(last.rollup_lag)}, decision {_seconds(last.decision_lag)}"
    return f"{passed:.0f} s: {sent}; lag {lags}, {later}; files {files}; MB {memory}"


def _seconds(value: float | None) -> str:
    return "none yet" if value is None else f"{value:.0f} s"
