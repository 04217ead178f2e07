"""The room's one decision: a message is checked, made durable, and only then answered for."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from neve.errors import RawZoneError
from neve.model.signals import Signal
from neve.otlp.batch import Intake
from neve.raw.frame import Encoding, Frame, Kind, Packing
from neve.receive.answer import Answer
from neve.receive.check import Checked, check
from neve.receive.unpack import unpack

if TYPE_CHECKING:
    from neve.receive.budget import Budget, Hold
    from neve.receive.config import ReceiverConfig
    from neve.receive.metrics import ReceiverMetrics
    from neve.receive.pressure import Pressure
    from neve.receive.transcode import Transcoder

KINDS = {Signal.TRACES: Kind.TRACES, Signal.LOGS: Kind.LOGS, Signal.METRICS: Kind.METRICS}
# Unpacking lets other threads run; below this size, changing threads costs more than it gives.
INLINE_BYTES = 16 * 1024


class Appender(Protocol):
    """Where frames become durable."""

    async def append(self, frame: Frame) -> None:
        """Return when the frame is durable; raises `RawZoneError` when it is not."""


@dataclass(frozen=True)
class Export:
    """One message as it came."""

    signal: Signal
    organization: str
    body: bytes
    encoding: Encoding = Encoding.PROTOBUF
    packing: Packing = Packing.NONE


@dataclass(frozen=True)
class Receiver:
    """Takes messages from every door."""

    config: ReceiverConfig
    max_future_nanos: int
    appender: Appender
    budget: Budget
    pressure: Pressure
    transcoder: Transcoder
    metrics: ReceiverMetrics

    async def accept(self, export: Export, hold: Hold) -> Answer:
        """Return when the message is durable, with what is said about it; raises `Refusal` when it is not kept.

        `hold` already has the bytes of the body; what is unpacked is added to it, and given back after the check.
        """
        intake = Intake(export.organization, time.time_ns(), self.max_future_nanos)
        if export.encoding is Encoding.JSON:
            frame, checked = await self._take_json(export, intake, hold)
        elif export.packing is Packing.NONE or len(export.body) <= INLINE_BYTES:
            frame, checked = self._take(export, intake, hold)
        else:
            frame, checked = await asyncio.to_thread(self._take, export, intake, hold)
        if checked.records:
            await self._keep(frame, export.signal, checked)
        return Answer(export.signal, checked.records, checked.rejected)

    def _take(self, export: Export, intake: Intake, hold: Hold) -> tuple[Frame, Checked]:
        """Check a protobuf message; what is kept are its bytes as they were sent."""
        message = unpack(export.body, export.packing, self.config.max_message_bytes, hold)
        checked = check(export.signal, message, intake, self.config.max_records)
        self._sized(export, message, hold)
        return _frame(export, intake, export.body, export.packing), checked

    async def _take_json(self, export: Export, intake: Intake, hold: Hold) -> tuple[Frame, Checked]:
        """Check a JSON message; what is kept is the protobuf message that it says."""
        text = await asyncio.to_thread(unpack, export.body, export.packing, self.config.max_message_bytes, hold)
        message = await self.transcoder.to_protobuf(export.signal, text)
        checked = check(export.signal, message, intake, self.config.max_records)
        self._sized(export, text, hold)
        hold.grow(len(message))
        return _frame(export, intake, message, Packing.NONE), checked

    def _sized(self, export: Export, plain: bytes, hold: Hold) -> None:
        self.metrics.sized(export.signal, len(export.body), len(plain))
        if export.packing is not Packing.NONE:
            hold.shrink(len(plain))

    async def _keep(self, frame: Frame, signal: Signal, checked: Checked) -> None:
        started = time.perf_counter()
        try:
            await self.appender.append(frame)
        except RawZoneError as error:
            raise self.pressure.failed(error) from error
        self.pressure.worked()
        self.metrics.kept(signal, checked.records, checked.rejected, time.perf_counter() - started)


def _frame(export: Export, intake: Intake, payload: bytes, packing: Packing) -> Frame:
    return Frame(KINDS[export.signal], export.organization, intake.received_unix_nano, payload, packing=packing)
