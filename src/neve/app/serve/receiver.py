"""The receiver wired from the settings, without its ports: raw zone writers, quotas, event checks and key guards."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.app.serve.guards import build_guard
from neve.app.wiring import build_lake, build_places
from neve.errors import ConfigError
from neve.ingest.watch.events import read_event
from neve.logger import get_logger
from neve.raw.writer import find_backlog_reader, open_writer
from neve.raw.zone import EVENTS, OTLP, RawZone
from neve.receive.backpressure import Backpressure, Usage
from neve.receive.budget import Budget
from neve.receive.config import check_receiver
from neve.receive.events import CheckedEvent, EventReceiver, RefusedFile
from neve.receive.examiners import Examiners
from neve.receive.metrics import ReceiverMetrics
from neve.receive.quotas import Quotas
from neve.receive.receiver import Receiver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from neve.app.settings import Settings
    from neve.ingest.watch.places import Places
    from neve.raw.segments import Segment
    from neve.raw.writer import GroupCommit
    from neve.receive.authentication import Guard
    from neve.receive.config import ReceiverConfig

NANOS = 1_000_000_000

log = get_logger("neve.receive")


@dataclass(frozen=True)
class ReceiverParts:
    """The dependencies of the receiver's servers."""

    receiver: Receiver
    events: EventReceiver
    guard: Guard

    @property
    def ailment(self) -> str | None:
        """Return the reason why the receiver rejects OTLP; none while it is healthy. Events are rejected separately."""
        return self.receiver.pressure.health_problem

    def drain(self) -> None:
        """Mark the receiver as draining."""
        self.receiver.pressure.draining = self.events.pressure.draining = True


@asynccontextmanager
async def receiver_parts(settings: Settings) -> AsyncIterator[ReceiverParts]:
    """Open the receiver without its ports; at the end its segments are sealed."""
    config = settings.receiver
    check_receiver(config)
    check_size_limits(settings)
    async with AsyncExitStack() as parts:
        usage, event_usage, quotas = (
            Usage(backlog_share_bytes(settings)),
            Usage(backlog_share_bytes(settings)),
            Quotas(config.limits),
        )
        pressure, otlp = await _open_zone(settings, OTLP, parts, usage)
        event_pressure, events = await _open_zone(settings, EVENTS, parts, event_usage)
        examiners, metrics, budget = await open_examiners(config, parts)
        metrics.gauge("backlog_bytes", "Bytes that wait to be ingested", lambda: pressure.backlog_bytes)
        metrics.gauge(
            "largest_backlog_bytes",
            "Bytes that wait to be ingested, of the organization with the largest backlog",
            lambda: usage.largest_waiting,
        )
        metrics.gauge("groups", "Groups that were synced to storage", lambda: otlp.groups)
        metrics.gauge("group_seconds", "Seconds spent on syncing groups to storage", lambda: otlp.seconds)
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
            build_guard(settings, parts),
        )


@dataclass(frozen=True)
class EventChecks:
    """Checks of events on receipt; the stream checks an event again when it reads it."""

    places: Places
    max_objects: int

    def check(self, organization: str, body: bytes) -> CheckedEvent:
        """Return how many files of an event are ingested, and why others are not; raises `InputError` for no event."""
        read = read_event(body, most=self.max_objects)
        problems = [(file.path, self.places.problem(organization, file.path)) for file in read.to_ingest]
        refused = [RefusedFile(path, why) for path, why in problems if why]
        odd = [RefusedFile(part.what, part.reason) for part in read.refused]
        return CheckedEvent(len(problems) - len(refused), (*refused, *odd), forbidden=bool(refused))


def check_size_limits(settings: Settings) -> None:
    """Raise `ConfigError` if the receiver would accept messages whose size sends them to quarantine at ingestion."""
    for name in ("max_message_bytes", "max_groups", "max_records", "max_attributes"):
        accepted, ingested = getattr(settings.receiver, name), getattr(settings.ingest, name)
        if accepted > ingested:
            raise ConfigError(
                f"receiver.{name} is {accepted}, expected at most ingest.{name}, which is {ingested}",
                hint=f"set ingest.{name} to {accepted} too",
            )


def backlog_share_bytes(settings: Settings) -> int:
    """Return the share of the backlog for one organization; 0 if there is only one, which means no separate limit."""
    if settings.receiver.auth == "open":
        return 0
    return int(settings.raw.max_backlog_bytes * settings.receiver.backlog_share)


async def open_examiners(config: ReceiverConfig, parts: AsyncExitStack) -> tuple[Examiners, ReceiverMetrics, Budget]:
    """Start the processes that check large messages, and return them with the metrics and the memory budget."""
    examiners, metrics, budget = Examiners(config), ReceiverMetrics(), Budget(config.max_inflight_bytes)
    parts.callback(examiners.close)
    await examiners.warm_up()
    metrics.gauge("inflight_bytes", "Bytes of requests in flight", lambda: budget.used)
    return examiners, metrics, budget


async def _open_zone(
    settings: Settings, name: str, parts: AsyncExitStack, usage: Usage
) -> tuple[Backpressure, GroupCommit]:
    """Open the writer of a zone and the monitor of its backlog, which reports ingested bytes to `usage`."""
    raw = settings.raw
    writer = open_writer(raw, settings.s3, name)
    parts.push_async_callback(writer.close)

    def settle(segments: Sequence[Segment], mark: int) -> None:
        usage.settle(writer.own_backlog(segments) + usage.added - mark)

    zone = RawZone.of(raw.location, settings.s3, name)
    min_free_bytes = raw.min_free_bytes if name == OTLP else 0  # the zones share one disk, which is monitored once
    backlog = find_backlog_reader(zone, writer)
    pressure = Backpressure(zone, raw.max_backlog_bytes, min_free_bytes, settle, lambda: usage.added, backlog)
    await pressure.measure()
    if pressure.space_problem is not None:
        log.warning(
            "all requests are rejected until the disk has free space",
            reason=pressure.space_problem,
            hint="free disk space, or set raw.min_free_bytes or raw.location",
        )
    watching = asyncio.create_task(pressure.watch())
    parts.push_async_callback(_cancel_task, watching)
    return pressure, writer


async def _cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
