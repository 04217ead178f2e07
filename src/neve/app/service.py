"""The parts of long-running services: settings in, parts that live as long as the service out."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from neve.app.wiring import build_lake, build_places
from neve.errors import ConfigError
from neve.ingest.watch.events import read_event
from neve.lake.keys import Keys
from neve.lake.state import State
from neve.model.network import is_loopback
from neve.raw.writer import open_writer
from neve.raw.zone import EVENTS, OTLP, RawZone
from neve.receive.budget import Budget
from neve.receive.config import check_receiver
from neve.receive.events import CheckedEvent, EventReceiver, RefusedFile
from neve.receive.examiners import Examiners
from neve.receive.keys import KeyDoor, OpenDoor
from neve.receive.metrics import ReceiverMetrics
from neve.receive.pressure import Pressure
from neve.receive.quotas import Quotas
from neve.receive.receiver import Receiver
from neve.receive.usage import Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from neve.app.settings import Settings
    from neve.ingest.watch.places import Places
    from neve.raw.group import GroupCommit
    from neve.raw.zone import Segment
    from neve.receive.keys import Guard

NANOS = 1_000_000_000

log = structlog.get_logger("neve.receive")


@dataclass(frozen=True)
class ReceiverParts:
    """What the doors of the receiver need."""

    receiver: Receiver
    events: EventReceiver
    guard: Guard

    @property
    def ailment(self) -> str | None:
        """Why the receiver refuses OTLP; none while it is well. Events are refused apart from it."""
        return self.receiver.pressure.ailment

    def drain(self) -> None:
        """Say that the receiver is about to stop."""
        self.receiver.pressure.draining = self.events.pressure.draining = True


@asynccontextmanager
async def receiver_parts(settings: Settings) -> AsyncIterator[ReceiverParts]:
    """The receiver without doors; at the end its segments are sealed."""
    config = settings.receiver
    check_receiver(config)
    check_agreement(settings)
    async with AsyncExitStack() as parts:
        usage, event_usage, quotas = (
            Usage(share_bytes(settings)),
            Usage(share_bytes(settings)),
            Quotas(config.limits),
        )
        pressure, otlp = await _zone(settings, OTLP, parts, usage)
        event_pressure, events = await _zone(settings, EVENTS, parts, event_usage)
        examiners, metrics, budget = (
            Examiners(config),
            ReceiverMetrics(),
            Budget(config.max_inflight_bytes),
        )
        parts.callback(examiners.close)
        await examiners.warm_up()
        metrics.gauge("inflight_bytes", "bytes of requests that are being worked on", lambda: budget.used)
        metrics.gauge("backlog_bytes", "bytes that wait to be ingested", lambda: pressure.backlog_bytes)
        metrics.gauge(
            "largest_backlog_bytes",
            "bytes that wait to be ingested of the organization that has the most",
            lambda: usage.largest_waiting,
        )
        metrics.gauge("groups", "groups that were made durable", lambda: otlp.groups)
        metrics.gauge("group_seconds", "seconds spent making groups durable", lambda: otlp.seconds)
        receiver = Receiver(
            config,
            settings.ingest.max_future_seconds * NANOS,
            otlp,
            budget,
            pressure,
            examiners,
            metrics,
            quotas,
            usage,
        )
        checks = EventChecks(build_places(settings, build_lake(settings)), settings.watch.max_objects)
        yield ReceiverParts(
            receiver,
            EventReceiver(events, event_pressure, config.max_nesting, checks.check, quotas, event_usage),
            guard_of(settings, parts),
        )


@dataclass(frozen=True)
class EventChecks:
    """Says at the door what comes of an event; the stream checks it again when it is read."""

    places: Places
    max_objects: int

    def check(self, organization: str, body: bytes) -> CheckedEvent:
        """How many of its files are ingested, and why others are not; raises `InputError` where it is no event."""
        read = read_event(body, most=self.max_objects)
        problems = [(file.path, self.places.problem(organization, file.path)) for file in read.to_ingest]
        refused = [RefusedFile(path, why) for path, why in problems if why]
        odd = [RefusedFile(part.what, part.reason) for part in read.refused]
        return CheckedEvent(len(problems) - len(refused), (*refused, *odd), forbidden=bool(refused))


def check_agreement(settings: Settings) -> None:
    """Raise `ConfigError` where the receiver would accept what ingestion puts into quarantine for its size."""
    for name in ("max_message_bytes", "max_groups", "max_records", "max_attributes"):
        accepted, ingested = getattr(settings.receiver, name), getattr(settings.ingest, name)
        if accepted > ingested:
            raise ConfigError(
                f"receiver.{name} is {accepted}, expected at most ingest.{name}, which is {ingested}",
                hint=f"set ingest.{name} to {accepted} too",
            )


def share_bytes(settings: Settings) -> int:
    """How much of the backlog one organization may have; 0 where there is only one, for no limit of its own."""
    if settings.receiver.auth == "open":
        return 0
    return int(settings.raw.max_backlog_bytes * settings.receiver.backlog_share)


async def _zone(settings: Settings, name: str, parts: AsyncExitStack, usage: Usage) -> tuple[Pressure, GroupCommit]:
    """A writer of a zone and the watcher of its backlog, which tells `usage` what of it was ingested."""
    raw = settings.raw
    writer = open_writer(raw, settings.s3, name)
    parts.push_async_callback(writer.close)

    def settle(segments: Sequence[Segment], mark: int) -> None:
        usage.settle(writer.own_backlog(segments) + usage.added - mark)

    zone = RawZone.of(raw.location, settings.s3, name)
    min_free_bytes = raw.min_free_bytes if name == OTLP else 0  # the zones share one disk, which is watched once
    pressure = Pressure(zone, raw.max_backlog_bytes, min_free_bytes, settle, lambda: usage.added)
    await pressure.look()
    if pressure.room_problem is not None:
        log.warning(
            "every request is refused until there is room on the disk",
            reason=pressure.room_problem,
            hint="make room, or set raw.min_free_bytes or raw.location",
        )
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
