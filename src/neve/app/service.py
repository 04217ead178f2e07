"""The parts of long-running services: settings in, parts that live as long as the service out."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.keys import Keys
from neve.lake.state import State
from neve.model.network import is_loopback
from neve.raw.writer import open_writer
from neve.raw.zone import EVENTS, OTLP, RawZone
from neve.receive.budget import Budget
from neve.receive.config import check_receiver
from neve.receive.events import EventReceiver
from neve.receive.keys import KeyDoor, OpenDoor
from neve.receive.metrics import ReceiverMetrics
from neve.receive.pressure import Pressure
from neve.receive.receiver import Receiver
from neve.receive.transcode import Transcoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from neve.app.settings import Settings
    from neve.raw.group import GroupCommit
    from neve.receive.keys import Guard

NANOS = 1_000_000_000


@dataclass(frozen=True)
class ReceiverParts:
    """What the doors of the receiver need."""

    receiver: Receiver
    events: EventReceiver
    guard: Guard

    @property
    def ailment(self) -> str | None:
        """Why the receiver refuses what comes; none while it is well."""
        return self.receiver.pressure.ailment or self.events.pressure.ailment

    def drain(self) -> None:
        """Say that the receiver is about to stop."""
        self.receiver.pressure.draining = self.events.pressure.draining = True


@asynccontextmanager
async def receiver_parts(settings: Settings) -> AsyncIterator[ReceiverParts]:
    """The receiver without doors; at the end its segments are sealed."""
    config = settings.receiver
    check_receiver(config)
    async with AsyncExitStack() as parts:
        pressure, otlp = await _zone(settings, OTLP, parts)
        event_pressure, events = await _zone(settings, EVENTS, parts)
        transcoder, metrics, budget = (
            Transcoder(config.max_nesting),
            ReceiverMetrics(),
            Budget(config.max_inflight_bytes),
        )
        parts.callback(transcoder.close)
        await transcoder.warm_up()
        metrics.gauge("inflight_bytes", "bytes of requests that are being worked on", lambda: budget.used)
        metrics.gauge("backlog_bytes", "bytes that wait to be ingested", lambda: pressure.backlog_bytes)
        metrics.gauge("groups", "groups that were made durable", lambda: otlp.groups)
        metrics.gauge("group_seconds", "seconds spent making groups durable", lambda: otlp.seconds)
        receiver = Receiver(
            config, settings.ingest.max_future_seconds * NANOS, otlp, budget, pressure, transcoder, metrics
        )
        yield ReceiverParts(
            receiver, EventReceiver(events, event_pressure, config.max_nesting), guard_of(settings, parts)
        )


async def _zone(settings: Settings, name: str, parts: AsyncExitStack) -> tuple[Pressure, GroupCommit]:
    """A writer of a zone and the watcher of its backlog."""
    raw = settings.raw
    writer = open_writer(raw, settings.s3, name)
    parts.push_async_callback(writer.close)
    pressure = Pressure(RawZone.of(raw.location, settings.s3, name), raw.max_backlog_bytes)
    await pressure.look()
    watching = asyncio.create_task(pressure.watch())
    parts.push_async_callback(_cancelled, watching)
    return pressure, writer


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def guard_of(settings: Settings, parts: AsyncExitStack) -> Guard:
    """Who looks at the keys that senders show."""
    if settings.receiver.auth == "open":
        return OpenDoor(settings.organization)
    return _keys_guard(settings, parts)


def health_guard(settings: Settings, parts: ExitStack | AsyncExitStack) -> Guard:
    """The guard of the port for health and metrics: everybody on this machine sees all of it, others need a key."""
    if is_loopback(settings.serve.host):
        return OpenDoor(settings.organization)
    return _keys_guard(settings, parts)


def _keys_guard(settings: Settings, parts: ExitStack | AsyncExitStack) -> Guard:
    state = State(settings.state)
    parts.callback(state.close)
    return KeyDoor(Keys(state), settings.receiver.key_seconds)
