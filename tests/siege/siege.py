"""The siege: start, be quiet, be attacked, wait until everything is in, judge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neve.time_slices import SHORT_NANOSECONDS, request_time_slices
from tests.chaos.service import ServiceError
from tests.siege.honest import Honest
from tests.siege.house import House
from tests.siege.machine import MachineWatch
from tests.siege.messages import NUMBERS
from tests.siege.plan import HOSTILE
from tests.siege.verdict import AFTER, BEFORE, SIEGE, Run
from tests.soak import tables
from tests.soak.tally import tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.model.signals import Signal
    from tests.siege.plan import Plan
    from tests.soak.tally import Keys

ROOT = Path(__file__).parents[2]
SWITCH_SECONDS = 0.0005  # ten times more often than by default
SETTLE_LOOK_SECONDS = 5.0
END_SECONDS = 120.0
TROUBLE_LETTERS = 500


def run_siege(plan: Plan, folder: Path, tell: Callable[[str], None]) -> Run:
    """Do all of it; nothing is left running."""
    house = House(folder, plan)
    try:
        house.start()
        with _attacker(house, plan) as attacker:
            return _phases(house, plan, attacker, tell)
    finally:
        house.service.kill()


def _phases(house: House, plan: Plan, attacker: subprocess.Popen[str], tell: Callable[[str], None]) -> Run:
    watch = MachineWatch(house)
    watch.start()
    sys.setswitchinterval(SWITCH_SECONDS)
    with _first_in_line():
        honest = Honest(house, plan)
        honest.start()
    _pass(house, plan.warm_seconds)
    _await_rows(house, plan)
    tell(f"quiet for {plan.quiet_seconds:g} s")
    _enter(BEFORE, honest, watch)
    _pass(house, plan.quiet_seconds)
    tell(f"siege for {plan.seconds:g} s; {watch.peak_mb:.0f} MB so far")
    _command(attacker, "go")
    _enter(SIEGE, honest, watch)
    _pass(house, plan.seconds)
    _enter("end", honest, watch)
    _command(attacker, "stop")
    said = json.loads(_line(attacker))
    tell(f"over, {watch.peak_mb:.0f} MB at most; quiet for {plan.quiet_seconds:g} s")
    _enter(AFTER, honest, watch)
    _pass(house, plan.quiet_seconds)
    honest.stop()
    missing = _settle(house, honest, plan)
    tell(f"{missing:,} records missing after it has settled")
    machine = watch.end()
    troubles = dict(honest.troubles)
    if not honest.own_rows:
        troubles["the honest side never saw a row of its own, so that foreign ones prove nothing"] = 1
    try:
        if code := house.service.end(END_SECONDS):
            troubles[f"the service ended with {code}; its log is {house.folder}/serve-1.log"] = 1
    except ServiceError as error:
        troubles[str(error)[:TROUBLE_LETTERS]] = 1
    return Run(
        waits=honest.waits,
        tallies=[tally(_keys(honest, signal), _found(house, signal)) for signal in NUMBERS],
        foreign_rows=honest.foreign_rows + said["foreign_rows"],
        machine=machine,
        answers=said["answers"],
        again=honest.again,
        errors=house.errors,
        troubles=troubles,
    )


def _enter(phase: str, honest: Honest, watch: MachineWatch) -> None:
    honest.phase = phase
    watch.enter(phase)


@contextmanager
def _first_in_line() -> Iterator[None]:
    """Let the threads that start here run as soon as an answer is there, as if they had a machine of their own.

    The honest side's waits are those for the service then, and not those for a processor that the service keeps busy.
    It needs a few hundredths of a processor. Without the right to a real-time priority, short time slices have to do.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (AttributeError, OSError):
        request_time_slices(SHORT_NANOSECONDS)
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def _attacker(house: House, plan: Plan) -> Iterator[subprocess.Popen[str]]:
    """The hostile side, with its bombs built before anything is measured."""
    place: dict[str, Any] = {
        "http_port": house.http_port,
        "grpc_port": house.grpc_port,
        "query_port": house.query_port,
        "key": house.keys[HOSTILE],
        "folder": str(house.folder),
        "slow_clients": plan.slow_clients,
    }
    with (house.folder / "hostile.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.siege.hostile", json.dumps(place)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # of a priority of its own
        )
    try:
        _line(process)
        yield process
    finally:
        process.kill()
        process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise ServiceError(f"the hostile side ended with {process.wait()}")
    return line


def _command(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def _pass(house: House, seconds: float) -> None:
    """Let time pass; a service that ends meanwhile ends the siege."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if house.service.ended:
            raise ServiceError(f"the service ended with {house.service.exit_code}\n{house.service.tail()}")
        time.sleep(min(left, 1.0))


def _await_rows(house: House, plan: Plan) -> None:
    """Until the first rows are in the tables: before that, queries have nothing to read."""
    until = time.monotonic() + plan.settle_seconds
    while any(len(_found(house, signal)) == 0 for signal in NUMBERS):
        if time.monotonic() > until:
            raise ServiceError(f"no row is in the tables after {plan.settle_seconds:g} s\n{house.service.tail()}")
        _pass(house, SETTLE_LOOK_SECONDS)


def _settle(house: House, honest: Honest, plan: Plan) -> int:
    """How many records are missing when none is, or when it has taken too long."""
    began = time.monotonic()
    while True:
        missing = sum(
            max(0, sum(map(len, honest.acknowledged[signal])) - len(_found(house, signal))) for signal in NUMBERS
        )
        if not missing or time.monotonic() - began > plan.settle_seconds:
            return missing
        _pass(house, SETTLE_LOOK_SECONDS)


def _keys(honest: Honest, signal: Signal) -> Iterator[Keys]:
    for numbers in honest.acknowledged[signal]:
        yield np.arange(numbers.start, numbers.stop, dtype=np.int64)


def _found(house: House, signal: Signal) -> Keys:
    """The numbers of the honest side's rows in a table."""
    return np.asarray(tables.ask(house.lake, NUMBERS[signal])["n"], np.int64)
