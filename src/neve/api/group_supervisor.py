"""The process group as a running service: starts and restarts its processes, with one port for the health of all."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.api.embedded_uvicorn import stop_signals, wait_for_event
from neve.api.health import serve_health
from neve.api.ports import Addresses, await_ports, find_free_port, setting_variable
from neve.app.serve.config import OWN_PROCESS
from neve.app.serve.group_monitor import GROUP, GroupMonitor
from neve.app.serve.guards import health_guard
from neve.app.serve.part import PartState
from neve.app.serve.process_group import GROUP_TOKEN, Launch, ParentPipe, build_group, new_group_token
from neve.app.serve.spark_sharing import is_spark_shared, new_connect_token, new_start_port
from neve.app.telemetry.config import SELF, find_receiver_address
from neve.app.telemetry.tracing import start_telemetry
from neve.app.wiring import build_documents
from neve.jobs.status_board import StatusBoard
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from neve.app.serve.supervisor import Supervisor
    from neve.app.settings import Settings

POLL_SECONDS = 0.05
LATE_SECONDS = 30.0  # interval of the messages about processes that are not ready

log = get_logger("neve.serve")


@dataclass(frozen=True)
class ServeGroup:
    """The processes with their parts, the configuration, and the instance of a group."""

    settings: Settings
    processes: Mapping[str, Sequence[str]]
    config: str | None
    instance: str


async def supervise(group: ServeGroup, ready: Callable[[Addresses], None]) -> int:
    """Keep the processes running until SIGTERM or SIGINT, then drain them; return 0 if all of them ended well."""
    config, watch = group.settings.serve, GroupMonitor(group.processes, token=new_group_token())
    with (
        _open_board(group) as board,
        ExitStack() as keys,
        ExitStack() as telemetry,
        ParentPipe() as lifeline,
        stop_signals() as stop,
    ):
        guard = health_guard(group.settings, keys)
        async with serve_health(watch, config, guard) as place:
            launch = await asyncio.to_thread(_prepare_launch, group, watch.token)
            telemetry.callback(start_telemetry(group.settings.telemetry, GROUP, _own_address(group, launch)))
            supervisor = watch.supervisor = build_group(group.processes, config, launch, lifeline, board)
            supervisor.start()
            if await _wait_until_ready(supervisor, stop):
                ready(replace(_collect_addresses(supervisor), health=place))
                await stop.wait()
            log.info("stopping, processes finish their work")
            if group.settings.telemetry.endpoint == SELF:
                await asyncio.to_thread(telemetry.close)  # while a receiver still accepts it
            # Servers first: data that they acknowledged last is ingested before the rest ends.
            ended_well = await asyncio.to_thread(supervisor.stop, OWN_PROCESS)
    log.info("stopped")
    return int(not ended_well)


@contextmanager
def _open_board(group: ServeGroup) -> Iterator[StatusBoard]:
    """Yield the status board of the processes; no connection is opened before its first use."""
    with closing(build_documents(group.settings)) as documents:
        yield StatusBoard(documents, group.instance, GROUP)


def _own_address(group: ServeGroup, launch: Launch) -> str | None:
    """Return the address of the group's receiver, with its actual port; none if only the receiver knows it."""
    receiver = group.settings.receiver
    port = int(launch.environment.get(setting_variable("receiver.http_port"), receiver.http_port))
    return find_receiver_address(receiver.model_copy(update={"http_port": port}))


def _prepare_launch(group: ServeGroup, token: str) -> Launch:
    """Prepare the launch: ports and tokens by which the processes of the group find each other."""
    shared = {**await_ports(group.settings, group.processes), GROUP_TOKEN: token}
    if not is_spark_shared(group.settings, group.processes):
        return Launch(group.config, group.instance, shared)
    spark = {**new_connect_token(), **new_start_port(find_free_port())}
    return Launch(group.config, group.instance, {**shared, **spark}, spark_port=find_free_port())


async def _wait_until_ready(supervisor: Supervisor, stop: asyncio.Event) -> bool:
    """Wait for the ready report of every process; return whether all came before a stop. Late processes are logged."""
    late = time.monotonic() + LATE_SECONDS
    while missing := _list_not_ready(supervisor):
        if await wait_for_event(stop, POLL_SECONDS):
            return False
        if time.monotonic() >= late:
            log.warning("processes are not ready", waiting_for=missing)
            late += LATE_SECONDS
    return True


def _list_not_ready(supervisor: Supervisor) -> dict[str, str]:
    """Return the processes that do not run, each with its state and its last failure."""
    return {
        status.name: f"{status.state}: {status.error}" if status.error else str(status.state)
        for status in supervisor.statuses()
        if status.state != PartState.RUNNING
    }


def _collect_addresses(supervisor: Supervisor) -> Addresses:
    """Return the addresses of all processes."""
    places = {
        key: str(place)
        for status in supervisor.statuses()
        for key, place in status.details.items()
        if place is not None and key in {"http", "grpc", "query"}
    }
    return Addresses(**places)
