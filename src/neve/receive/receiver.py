"""The room's one decision: a message is checked, made durable, and only then answered for."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from neve.errors import RawZoneError
from neve.lake.scopes import Caller
from neve.model.signals import Signal
from neve.otlp.batch import Intake
from neve.raw.frame import Encoding, Frame, Kind, Packing, stored_bytes
from neve.receive.answer import Answer
from neve.receive.quotas import Quotas
from neve.receive.refusal import Refusal
from neve.receive.unpack import unpack, unpack_short
from neve.receive.usage import Usage

if TYPE_CHECKING:
    from neve.receive.budget import Budget, Hold
    from neve.receive.check import Checked
    from neve.receive.config import ReceiverConfig
    from neve.receive.examine import Examined
    from neve.receive.examiners import Examiners
    from neve.receive.metrics import ReceiverMetrics
    from neve.receive.pressure import Pressure

KINDS = {Signal.TRACES: Kind.TRACES, Signal.LOGS: Kind.LOGS, Signal.METRICS: Kind.METRICS}
# Unpacking lets other threads run. Changing threads costs more than it gives for bodies that are shorter than this,
# packed and unpacked.
INLINE_PACKED, INLINE_PLAIN = 16 * 1024, 64 * 1024


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
    key_id: str = ""


@dataclass(frozen=True)
class Receiver:
    """Takes messages from every door."""

    config: ReceiverConfig
    max_future_nanos: int
    appender: Appender
    budget: Budget
    pressure: Pressure
    examiners: Examiners
    metrics: ReceiverMetrics
    quotas: Quotas = field(default_factory=Quotas)
    usage: Usage = field(default_factory=Usage)

    def admit(self, caller: Caller) -> None:
        """Raise `Refusal` where nothing of a caller is taken now; asked before its message is read."""
        self.pressure.check()
        try:
            self.usage.check(caller.organization)
            self.quotas.check(caller)
        except Refusal:
            self.usage.refused(caller.organization)
            raise

    async def accept(self, export: Export, hold: Hold) -> Answer:
        """Return when the message is durable, with what is said about it; raises `Refusal` when it is not kept.

        `hold` already has the bytes of the body; what is unpacked is added to it, and given back after the check.
        """
        intake = Intake(export.organization, time.time_ns(), self.max_future_nanos)
        plain, found = await self._open(export, intake, hold)
        if found is None:
            found = await self.examiners.examine(export.signal, plain, export.encoding, intake)
        self.metrics.sized(export.signal, len(export.body), len(plain))
        if export.packing is not Packing.NONE:
            hold.shrink(len(plain))
        checked = found.checked
        if checked.records:
            self._charge(export, len(plain), checked.records)
            frame = _frame(export, intake, found, hold)
            await self._keep(frame, export.signal, checked)
            self.usage.kept(export.organization, len(plain), checked.records, stored_bytes(frame))
        return Answer(export.signal, checked.records, checked.rejected)

    async def _open(self, export: Export, intake: Intake, hold: Hold) -> tuple[bytes, Examined | None]:
        """The plain body; what was found of it where it was examined in the same thread."""
        if export.packing is Packing.NONE:
            return self._unpack(export, hold), None
        if len(export.body) <= INLINE_PACKED:
            most = min(INLINE_PLAIN, self.config.max_message_bytes)
            plain = unpack_short(export.body, export.packing, most)
            if plain is not None:
                hold.grow(len(plain))
                return plain, None
        return await asyncio.to_thread(self._unpack_and_examine, export, intake, hold)

    def _unpack_and_examine(self, export: Export, intake: Intake, hold: Hold) -> tuple[bytes, Examined | None]:
        plain = self._unpack(export, hold)
        if export.encoding is Encoding.JSON or self.examiners.is_large(plain):
            return plain, None
        return plain, self.examiners.examine_here(export.signal, plain, intake)

    def _unpack(self, export: Export, hold: Hold) -> bytes:
        return unpack(export.body, export.packing, self.config.max_message_bytes, hold)

    def _charge(self, export: Export, size: int, records: int) -> None:
        try:
            self.quotas.charge(Caller(export.organization, export.key_id), size, records)
        except Refusal:
            self.usage.refused(export.organization)
            raise

    async def _keep(self, frame: Frame, signal: Signal, checked: Checked) -> None:
        started = time.perf_counter()
        try:
            await self.appender.append(frame)
        except RawZoneError as error:
            raise self.pressure.failed(error) from error
        self.pressure.worked()
        self.metrics.kept(signal, checked.records, checked.rejected, time.perf_counter() - started)


def _frame(export: Export, intake: Intake, found: Examined, hold: Hold) -> Frame:
    """What is kept: the bytes as they were sent; of a JSON message the protobuf message that it says."""
    kind, received = KINDS[export.signal], intake.received_unix_nano
    if found.message is None:
        return Frame(kind, export.organization, received, export.body, packing=export.packing)
    hold.grow(len(found.message))
    return Frame(kind, export.organization, received, found.message)
