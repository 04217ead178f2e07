"""The receiver as a feed of tail sampling in memory: the same doors, with spans that are held instead of kept."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from neve.app.service import NANOS, ReceiverParts, guard_of, receiver_parts
from neve.ingest.decoder import decode_within
from neve.model.signals import Signal
from neve.raw.frame import Kind
from neve.raw.zone import EVENTS, OTLP, RawZone
from neve.receive.budget import Budget
from neve.receive.config import check_receiver
from neve.receive.events import CheckedEvent, EventReceiver
from neve.receive.examiners import Examiners
from neve.receive.metrics import ReceiverMetrics
from neve.receive.pressure import Pressure
from neve.receive.quotas import Quotas
from neve.receive.receiver import Receiver
from neve.receive.refusal import Refusal, Verdict
from neve.tail.memory.intake import HeldAppender

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from neve.app.settings import Settings
    from neve.errors import RawZoneError
    from neve.lake.scopes import Caller
    from neve.raw.frame import Frame
    from neve.receive.answer import Answer
    from neve.receive.budget import Hold
    from neve.receive.receiver import Appender, Export
    from neve.tail.memory.selector import MemorySelector

HINT = "send it to `neve serve`, or let this receiver keep everything in the raw zone too"


class TraceReceiver(Receiver):
    """Takes traces and nothing else: there is no place for the rest."""

    async def accept(self, export: Export, hold: Hold) -> Answer:
        """Return when the spans are held; raises `Refusal` for what is no trace."""
        if export.signal is not Signal.TRACES:
            raise _no_place(f"{export.signal} are not taken here: this receiver feeds tail sampling in memory ({HINT})")
        return await super().accept(export, hold)


class NoEvents(EventReceiver):
    """Takes no notifications."""

    async def accept(self, _caller: Caller, _body: bytes) -> CheckedEvent:
        """Refuse it."""
        raise _no_place(f"notifications are not taken here: this receiver feeds tail sampling in memory ({HINT})")


class HeldPressure(Pressure):
    """Memory makes its own room: only what could not be held makes it not ready."""

    def failed(self, error: RawZoneError) -> Refusal:
        """Take note that something could not be held; what its sender is told."""
        super().failed(error)
        return Refusal(Verdict.UNAVAILABLE, "not_held", error.message)


@dataclass(frozen=True)
class Both:
    """Keeps frames in the raw zone, and feeds those of traces when they are durable."""

    durable: Appender
    held: Appender

    async def append(self, frame: Frame) -> None:
        """Return when the frame is durable, and its spans are held; raises `RawZoneError` when they are not."""
        await self.durable.append(frame)
        if frame.kind is Kind.TRACES:
            await self.held.append(frame)


@asynccontextmanager
async def memory_receiver(
    settings: Settings, selector: MemorySelector, *, beside_raw: bool = False
) -> AsyncIterator[ReceiverParts]:
    """The receiver without doors; `beside_raw` keeps what it gets in the raw zone too, logs and metrics with it."""
    nanos = settings.ingest.max_future_seconds * NANOS
    held = HeldAppender(
        selector, selector.config.name, partial(decode_within, settings.ingest.bounds, Signal.TRACES), nanos
    )
    if beside_raw:
        async with receiver_parts(settings) as parts:
            yield replace(parts, receiver=replace(parts.receiver, appender=Both(parts.receiver.appender, held)))
        return
    config = settings.receiver
    check_receiver(config)
    async with AsyncExitStack() as parts:
        examiners, metrics, budget = (
            Examiners(config),
            ReceiverMetrics(),
            Budget(config.max_inflight_bytes),
        )
        parts.callback(examiners.close)
        await examiners.warm_up()
        metrics.gauge("inflight_bytes", "bytes of requests that are being worked on", lambda: budget.used)
        pressures = [HeldPressure(RawZone.of(settings.raw.location, settings.s3, zone), 0) for zone in (OTLP, EVENTS)]
        quotas = Quotas(config.limits)
        receiver = TraceReceiver(config, nanos, held, budget, pressures[0], examiners, metrics, quotas)
        yield ReceiverParts(
            receiver, NoEvents(held, pressures[1], config.max_nesting, _no_files), guard_of(settings, parts)
        )


def _no_files(_organization: str, _body: bytes) -> CheckedEvent:
    return CheckedEvent(0)


def _no_place(words: str) -> Refusal:
    return Refusal(Verdict.UNSUPPORTED, "traces_only", words)
