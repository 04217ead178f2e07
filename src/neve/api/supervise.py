"""The process group as a running service: its processes kept running, and one port for those who watch all of them."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from neve.api.addresses import Addresses
from neve.api.ports import await_ports, free_port, variable
from neve.api.signals import happens, stop_signals
from neve.api.watch import watching
from neve.app.serve.choice import ALONE
from neve.app.serve.group import Launch, build_group
from neve.app.serve.group_watch import GROUP, GroupWatch
from neve.app.serve.instance import GROUP_TOKEN, new_group_token
from neve.app.serve.lifeline import Lifeline
from neve.app.serve.part import PartState
from neve.app.serve.shared_spark import is_shared, new_word
from neve.app.service import health_guard
from neve.app.telemetry.config import SELF
from neve.app.telemetry.place import own_address
from neve.app.telemetry.setup import setup
from neve.app.wiring import build_documents
from neve.work.board import Board

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from neve.app.serve.household import Household
    from neve.app.settings import Settings

POLL_SECONDS = 0.05
LATE_SECONDS = 30.0  # after which it is said what is not ready, and as often as that

log = structlog.get_logger("neve.serve")


@dataclass(frozen=True)
class Group:
    """What is to run: which processes with which parts, by which configuration, as which instance."""

    settings: Settings
    processes: Mapping[str, Sequence[str]]
    config: str | None
    instance: str


async def supervise(group: Group, ready: Callable[[Addresses], None]) -> int:
    """Keep the processes running until SIGTERM or SIGINT, then have them drain; 0 where all of them ended well."""
    config, watch = group.settings.serve, GroupWatch(group.processes, token=new_group_token())
    with (
        _board(group) as board,
        ExitStack() as keys,
        ExitStack() as telemetry,
        Lifeline() as lifeline,
        stop_signals() as stop,
    ):
        guard = health_guard(group.settings, keys)
        async with watching(watch, config, guard) as place:
            launch = await asyncio.to_thread(_launch, group, watch.token)
            telemetry.callback(setup(group.settings.telemetry, GROUP, _own_address(group, launch)))
            household = watch.household = build_group(group.processes, config, launch, lifeline, board)
            household.start()
            if await _runs(household, stop):
                ready(replace(_addresses(household), health=place))
                await stop.wait()
            log.info("stopping: every process finishes what it has begun")
            if group.settings.telemetry.endpoint == SELF:
                await asyncio.to_thread(telemetry.close)  # while there is a receiver that takes it
            # Doors first: what they acknowledged last is taken in before the rest ends.
            ended_well = await asyncio.to_thread(household.stop, ALONE)
    log.info("stopped")
    return int(not ended_well)


@contextmanager
def _board(group: Group) -> Iterator[Board]:
    """Where it is told how the processes are; nothing is opened before it is used."""
    with closing(build_documents(group.settings)) as documents:
        yield Board(documents, group.instance, GROUP)


def _own_address(group: Group, launch: Launch) -> str | None:
    """Where the receiver of the group is, on the port that it got; none where only it knows."""
    receiver = group.settings.receiver
    port = int(launch.environment.get(variable("receiver.http_port"), receiver.http_port))
    return own_address(receiver.model_copy(update={"http_port": port}))


def _launch(group: Group, token: str) -> Launch:
    """How the processes of the group find each other."""
    shared = {**await_ports(group.settings, group.processes), GROUP_TOKEN: token}
    if not is_shared(group.settings, group.processes):
        return Launch(group.config, group.instance, shared)
    return Launch(group.config, group.instance, {**shared, **new_word()}, spark_port=free_port())


async def _runs(household: Household, stop: asyncio.Event) -> bool:
    """Whether every process has said that it is ready, before the group is told to stop; who is late is named."""
    late = time.monotonic() + LATE_SECONDS
    while missing := _missing(household):
        if await happens(stop, POLL_SECONDS):
            return False
        if time.monotonic() >= late:
            log.warning("processes are not ready", waiting_for=missing)
            late += LATE_SECONDS
    return True


def _missing(household: Household) -> dict[str, str]:
    """Processes that do not run, and what is known of each: its state, and what it failed of last."""
    return {
        status.name: f"{status.state}: {status.error}" if status.error else str(status.state)
        for status in household.statuses()
        if status.state != PartState.RUNNING
    }


def _addresses(household: Household) -> Addresses:
    """Where the doors of all processes are."""
    places = {
        key: str(place)
        for status in household.statuses()
        for key, place in status.details.items()
        if place is not None and key in {"http", "grpc", "query"}
    }
    return Addresses(**places)
