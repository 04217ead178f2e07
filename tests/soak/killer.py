"""The killer: ends a part of a service with SIGKILL, and measures how long it takes until all is at work again."""

from __future__ import annotations

import http.client
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from neve.model.signals import Signal
from tests.chaos.service import ServiceError
from tests.parts.process import HOST
from tests.soak.plan import Victim
from tests.soak.processes import members
from tests.soak.recovery import LEFT_OVER_SECONDS, Recovery
from tests.soak.watermark import last_ingest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.soak.acks import Acks
    from tests.soak.house import House

PATIENCE_SECONDS = 180.0  # until nobody waits for a recovery any more
LOOK_SECONDS = 0.5
ANSWER_SECONDS = 5.0
OK = 200


class Killer:
    """Kills one of the houses' parts after the other; a house's supervisor is started again, as init would."""

    def __init__(self, houses: Sequence[House], acks: Acks, began: float) -> None:
        self.recoveries: list[Recovery] = []
        self._houses = houses
        self._acks = acks
        self._began = began
        self._turn = 0

    def kill(self, victim: Victim) -> Recovery:
        """Kill, and wait until all is at work again."""
        house, at = self._houses[self._turn % len(self._houses)], time.time()
        if victim is Victim.SERVICE:
            self._turn += 1
            house.service.kill()
        else:
            _end(house, victim)
        seconds = _await(self._checks(house, victim), at)
        if victim is Victim.SERVICE:  # the other one had to do without it
            house.service.start()
        recovery = Recovery(victim, at - self._began, seconds)
        self.recoveries.append(recovery)
        return recovery

    def _checks(self, house: House, victim: Victim) -> list[Callable[[float], bool]]:
        """What must be so again."""
        match victim:
            case Victim.RECEIVER:
                return [_started_again(house, victim), self._receives]
            case Victim.API:
                return [_started_again(house, victim), lambda _at: _answers(house)]
            case Victim.TEND | Victim.JVM:
                return [self._commits]
            case Victim.SERVICE:
                return [self._receives, self._commits]
            case Victim.SUPERVISOR:
                return [self._receives, self._commits, lambda _at: _answers(house)]

    def _receives(self, at: float) -> bool:
        return self._acks.oldest_last > at + ANSWER_SECONDS / 10

    def _commits(self, at: float) -> bool:
        lake = self._houses[0].lake
        return all(last_ingest(lake.table(kind.table)) > at + LEFT_OVER_SECONDS for kind in Signal)


def _end(house: House, victim: Victim) -> None:
    """SIGKILL to the processes of that role; where the group is one process, it has all roles."""
    pids = [member.pid for member in members(house.service.pid) if member.role == victim]
    if not pids:
        raise ServiceError(f"{house.name} has no process that is its {victim}")
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if victim is Victim.SUPERVISOR:
        house.start_again()


def _started_again(house: House, victim: Victim) -> Callable[[float], bool]:
    return lambda at: any(one.role == victim and one.created >= at for one in members(house.service.pid))


def _answers(house: House) -> bool:
    """Whether the query API does."""
    connection = http.client.HTTPConnection(HOST, house.query_port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/api/v1/openapi.json")
        return connection.getresponse().status == OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _await(checks: Sequence[Callable[[float], bool]], at: float) -> float | None:
    while time.time() < at + PATIENCE_SECONDS:
        if all(check(at) for check in checks):
            return time.time() - at
        time.sleep(LOOK_SECONDS)
    return None
