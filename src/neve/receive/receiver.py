"""Receiver of messages: decompress and check a message, make it durable, and only then acknowledge it.

Decompression checks the client's limit and the budget of all requests after each piece.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import zstandard

from neve.errors import RawZoneError
from neve.model.signals import Signal
from neve.otlp.decode_result import Intake
from neve.raw.compression import MAX_MEMBERS, ZSTD_WINDOW, CorruptPayload, decompress_pieces, join_pieces
from neve.raw.frame import Encoding, Frame, Kind, Packing, stored_bytes
from neve.receive.backpressure import Usage
from neve.receive.examine import warn_unrecognized
from neve.receive.quotas import Quotas
from neve.receive.refusal import Refusal, malformed_error, too_large_error
from neve.receive.response import Answer
from neve.state.scopes import Caller

if TYPE_CHECKING:
    from neve.receive.backpressure import Backpressure
    from neve.receive.budget import Budget, Hold
    from neve.receive.check import Checked
    from neve.receive.config import ReceiverConfig
    from neve.receive.examine import Examined
    from neve.receive.examiners import Examiners
    from neve.receive.metrics import ReceiverMetrics


__all__ = ["MAX_MEMBERS", "unpack", "unpack_short"]

WBITS = {Packing.GZIP: 16 + zlib.MAX_WBITS, Packing.DEFLATE: zlib.MAX_WBITS}


def unpack(body: bytes, packing: Packing, limit: int, hold: Hold) -> bytes:
    """Decompress a body; raises `Refusal` if it is corrupt, larger than `limit`, or exceeds the budget."""
    if packing is Packing.NONE:
        if len(body) > limit:
            raise too_large_error("the message", limit)
        return body
    try:
        return join_pieces(_unpack_bounded(body, packing, limit, hold))
    except CorruptPayload as error:
        raise malformed_error(f"the body {error}") from None


def unpack_short(body: bytes, packing: Packing, most: int) -> bytes | None:
    """Decompress a body that is one complete member of at most `most` bytes.

    Returns None for any other body, which `unpack` then examines. No more than `most` bytes are ever decompressed.
    """
    try:
        return _short_zstd(body, most) if packing is Packing.ZSTD else _short_deflate(body, WBITS[packing], most)
    except (zlib.error, zstandard.ZstdError):
        return None


def _short_deflate(body: bytes, wbits: int, most: int) -> bytes | None:
    inflater = zlib.decompressobj(wbits)
    plain = inflater.decompress(body, most + 1)
    return plain if inflater.eof and not inflater.unused_data and len(plain) <= most else None


def _short_zstd(body: bytes, most: int) -> bytes | None:
    declared = zstandard.frame_content_size(body)  # -1 if it is not declared; a declared size is allocated
    if declared == 0 or declared > most:
        return None
    unpacker = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    return unpacker.decompress(body, max_output_size=most, allow_extra_data=False)


def _unpack_bounded(body: bytes, packing: Packing, limit: int, hold: Hold) -> list[bytes]:
    found, size = [], 0
    for piece in decompress_pieces(body, packing):
        if not piece:
            continue
        size += len(piece)
        if size > limit:
            raise too_large_error("the unpacked message", limit)
        hold.grow(len(piece))
        found.append(piece)
    return found


KINDS = {Signal.TRACES: Kind.TRACES, Signal.LOGS: Kind.LOGS, Signal.METRICS: Kind.METRICS}
# Decompression releases Python's lock. A thread switch costs more than it gains for bodies shorter than this, packed
# and unpacked.
INLINE_PACKED, INLINE_PLAIN = 16 * 1024, 64 * 1024


class Appender(Protocol):
    """Durable store of frames."""

    async def append(self, frame: Frame) -> None:
        """Append a frame, and return when it is durable; raises `RawZoneError` if it is not."""


@dataclass(frozen=True)
class Export:
    """One message as it was received."""

    signal: Signal
    organization: str
    body: bytes
    encoding: Encoding = Encoding.PROTOBUF
    packing: Packing = Packing.NONE
    key_id: str = ""


@dataclass(frozen=True)
class Receiver:
    """Receiver of messages from all transports."""

    config: ReceiverConfig
    max_future_nanos: int
    appender: Appender
    budget: Budget
    pressure: Backpressure
    examiners: Examiners
    metrics: ReceiverMetrics
    quotas: Quotas = field(default_factory=Quotas)
    usage: Usage = field(default_factory=Usage)

    def admit(self, caller: Caller) -> None:
        """Raise `Refusal` if nothing is accepted from a caller now. It is called before the message is read."""
        self.pressure.check()
        try:
            self.usage.check(caller.organization)
            self.quotas.check(caller)
        except Refusal:
            self.usage.count_refused(caller.organization)
            raise

    async def accept(self, export: Export, hold: Hold) -> Answer:
        """Store a message, and return the response when it is durable; raises `Refusal` if it is not stored.

        `hold` already has the bytes of the body. The unpacked bytes are added to it, and returned after the check.
        """
        intake = Intake(export.organization, time.time_ns(), self.max_future_nanos)
        try:
            plain, found = await self._open(export, intake, hold)
        except Refusal as refusal:
            self._charge_refused(export, hold, refusal)
            raise
        self.metrics.count_bytes(export.signal, len(export.body), len(plain))
        if export.packing is not Packing.NONE:
            hold.shrink(len(plain))
        checked = found.checked
        if checked.records:
            self._charge(export, len(plain), checked.records)
            frame = _build_frame(export, intake, found, hold)
            await self._store(frame, export.signal, checked)
            self.usage.count_stored(export.organization, len(plain), checked.records, stored_bytes(frame))
            return Answer(export.signal, checked.records, checked.rejected, checked.details)
        warning = warn_unrecognized(export.signal, plain) if export.encoding is Encoding.JSON else ""
        if warning:
            self.metrics.count_unrecognized(export.signal)
        return Answer(export.signal, warning=warning)

    async def _open(self, export: Export, intake: Intake, hold: Hold) -> tuple[bytes, Examined]:
        """Return the plain body, and the result of its check."""
        signal, encoding = export.signal, export.encoding
        short = self._unpack_inline(export, hold)
        if short is not None:
            return short, await self.examiners.examine(signal, short, encoding, intake)
        plain, found = await asyncio.to_thread(self._unpack_and_examine, export, intake, hold)
        if found is None:
            examine = self.examiners.examine if encoding is Encoding.JSON else self.examiners.examine_apart
            found = await examine(signal, plain, encoding, intake)
        return plain, found

    def _unpack_inline(self, export: Export, hold: Hold) -> bytes | None:
        """Return the plain body if it is plain already or short, else nothing."""
        if export.packing is Packing.NONE:
            return self._unpack(export, hold)
        if len(export.body) > INLINE_PACKED:
            return None
        plain = unpack_short(export.body, export.packing, min(INLINE_PLAIN, self.config.max_message_bytes))
        if plain is not None:
            hold.grow(len(plain))
        return plain

    def _unpack_and_examine(self, export: Export, intake: Intake, hold: Hold) -> tuple[bytes, Examined | None]:
        """Return the plain body, and the result of its check if this thread can examine it."""
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
            self.usage.count_refused(export.organization)
            raise

    def _charge_refused(self, export: Export, hold: Hold, refusal: Refusal) -> None:
        """Charge a message that was refused by its own fault: reading it costs as much as a valid one of its size.

        Without this a client could repeat a few kilobytes that unpack to the largest message for free.
        """
        if not refusal.verdict.is_retryable:
            self.quotas.charge_anyway(Caller(export.organization, export.key_id), hold.size, 0)

    async def _store(self, frame: Frame, signal: Signal, checked: Checked) -> None:
        started = time.perf_counter()
        try:
            await self.appender.append(frame)
        except RawZoneError as error:
            raise self.pressure.record_failure(error) from error
        self.pressure.record_success()
        self.metrics.count_stored(signal, checked.records, checked.rejected, time.perf_counter() - started)


def _build_frame(export: Export, intake: Intake, found: Examined, hold: Hold) -> Frame:
    """Return the frame to store: the bytes as sent, or for JSON the equivalent protobuf message if there is one."""
    kind, received = KINDS[export.signal], intake.received_unix_nano
    if found.message is None:
        return Frame(kind, export.organization, received, export.body, export.encoding, export.packing)
    hold.grow(len(found.message))
    return Frame(kind, export.organization, received, found.message)
