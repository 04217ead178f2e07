"""A message is answered for when it is durable, and only then."""

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from neve.errors import RawZoneError
from neve.lake.config import S3Config
from neve.model.signals import Signal
from neve.otlp.json import to_json
from neve.raw.frame import Encoding, Frame, Kind, Packing
from neve.raw.writer import GroupCommit
from neve.raw.zone import RawZone
from neve.receive.backpressure import Backpressure
from neve.receive.budget import Budget, Hold
from neve.receive.config import LimitConfig, ReceiverConfig
from neve.receive.events import CheckedEvent, EventReceiver
from neve.receive.examiners import Examiners
from neve.receive.metrics import ReceiverMetrics
from neve.receive.quotas import Quotas
from neve.receive.receiver import Export, Receiver, unpack
from neve.receive.refusal import Refusal, Verdict
from neve.state.scopes import Caller
from tests.receive.doubles import MemorySink, field, span, traces_of
from tests.telemetry import traces

DAY = 86_400 * 1_000_000_000


@dataclass
class Room:
    """A receiver whose zone is in memory."""

    receiver: Receiver
    events: EventReceiver
    sink: MemorySink

    async def accept(self, body: bytes, **how: Any) -> Any:
        """Take a message as a door would."""
        with self.receiver.budget.hold() as hold:
            hold.grow(len(body))
            return await self.receiver.accept(Export(Signal.TRACES, "acme", body, **how), hold)


def one_file(_organization: str, _body: bytes) -> CheckedEvent:
    """Whatever comes announces a file that may be ingested."""
    return CheckedEvent(1)


@asynccontextmanager
async def a_room(folder: Path, **config: Any) -> AsyncIterator[Room]:
    """A receiver with its own thread of writing."""
    settings = ReceiverConfig(**{"check_processes": 0, **config})
    sink = MemorySink()
    writer = GroupCommit(sink)
    pressure = Backpressure(RawZone.of(str(folder), S3Config(), "otlp"), 2**40)
    examiners = Examiners(settings)
    budget = Budget(settings.max_inflight_bytes)
    receiver = Receiver(settings, DAY, writer, budget, pressure, examiners, ReceiverMetrics())
    try:
        yield Room(receiver, EventReceiver(writer, pressure, settings.max_nesting, one_file), sink)
    finally:
        assert budget.used == 0
        await writer.close()
        examiners.close()


def run(work: Callable[[Room], Coroutine[Any, Any, Any]], folder: Path, **config: Any) -> Any:
    """Do something with a receiver."""

    async def inside() -> Any:
        async with a_room(folder, **config) as room:
            return await work(room)

    return asyncio.run(inside())


@pytest.mark.parametrize("large", [False, True])
def test_a_packed_message_is_kept_as_it_was_sent(tmp_path: Path, large: bool) -> None:
    """Whether it is unpacked here or in a thread."""
    body = gzip.compress(traces(3000 if large else 3), compresslevel=1)

    async def work(room: Room) -> None:
        answer = await room.accept(body, packing=Packing.GZIP)
        [frame] = room.sink.frames
        assert (frame.kind, frame.organization_id, frame.payload) == (Kind.TRACES, "acme", body)
        assert (frame.encoding, frame.packing) == (Encoding.PROTOBUF, Packing.GZIP)
        assert (answer.records, answer.message) == (3000 if large else 3, "")

    run(work, tmp_path)


@pytest.mark.parametrize(("packing", "pack"), [(Packing.GZIP, gzip.compress), (Packing.ZSTD, zstandard.compress)])
def test_a_short_body_that_is_long_inside_is_unpacked_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packing: Packing, pack: Callable[[bytes], bytes]
) -> None:
    """Two kilobytes may be 63 MB, which nobody is to wait for; where it is short inside, no thread is needed."""
    where: list[tuple[bool, int]] = []

    def unpack_and_note(body: bytes, packing: Packing, limit: int, hold: Hold) -> bytes:
        plain = unpack(body, packing, limit, hold)
        where.append((threading.current_thread() is threading.main_thread(), len(plain)))
        return plain

    monkeypatch.setattr("neve.receive.receiver.unpack", unpack_and_note)
    long = field(9, bytes(4_000_000)) + traces(3)  # a field that no decoder knows
    assert len(pack(long)) < 16 * 1024

    async def work(room: Room) -> None:
        assert (await room.accept(pack(traces(3)), packing=packing)).records == 3
        assert where == []
        assert (await room.accept(pack(long), packing=packing)).records == 3
        assert where == [(False, len(long))]

    run(work, tmp_path)


def test_a_json_message_is_kept_as_protobuf(tmp_path: Path) -> None:
    """Packed or not."""
    text = to_json(Signal.TRACES, traces()).encode()

    async def work(room: Room) -> None:
        await room.accept(text, encoding=Encoding.JSON)
        await room.accept(gzip.compress(text), encoding=Encoding.JSON, packing=Packing.GZIP)
        for frame in room.sink.frames:
            assert (frame.payload, frame.encoding, frame.packing) == (traces(), Encoding.PROTOBUF, Packing.NONE)

    run(work, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"[]", b"null", b"7", b"{} {}", b"\xff{", b'{"resourceSpans": 5}', b'{"a":' + b"[" * 10_000),
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":5}]}]}]}',
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"zz"}]}]}]}',
    ],
    ids=lambda text: repr(text[:20]),
)
def test_bad_json_is_malformed(tmp_path: Path, text: bytes) -> None:
    """And nothing is kept of it."""

    async def work(room: Room) -> None:
        with pytest.raises(Refusal) as caught:
            await room.accept(text, encoding=Encoding.JSON)
        assert caught.value.verdict is Verdict.MALFORMED
        assert room.sink.frames == []

    run(work, tmp_path)


def test_refused_records_are_kept_and_told(tmp_path: Path) -> None:
    """The whole message is durable; ingestion puts the bad ones into quarantine."""
    body = traces_of(span(), span(trace_id=b""), span(span_id=b""), span(span_id=b"x"))

    async def work(room: Room) -> None:
        answer = await room.accept(body)
        assert answer.message == (
            "3 of 4 spans were rejected and stored in quarantine: 2 invalid_span_id, 1 invalid_trace_id"
        )
        assert [frame.payload for frame in room.sink.frames] == [body]

    run(work, tmp_path)


@pytest.mark.parametrize("how", [{}, {"encoding": Encoding.JSON}])
def test_nothing_is_kept_of_an_empty_message(tmp_path: Path, how: dict[str, Any]) -> None:
    """It is answered all the same."""

    async def work(room: Room) -> None:
        answer = await room.accept(b"{}" if how else b"", **how)
        assert (answer.records, room.sink.frames) == (0, [])

    run(work, tmp_path)


@pytest.mark.parametrize("error", [RawZoneError("the disk is full"), OSError(5, "input/output error")])
def test_what_is_not_durable_is_not_acknowledged(tmp_path: Path, error: Exception) -> None:
    """A failing disk makes senders come back, and when it works again nothing has to be started anew."""

    async def work(room: Room) -> None:
        room.sink.error = error
        with pytest.raises(Refusal) as caught:
            await room.accept(traces())
        assert (caught.value.verdict, caught.value.reason) == (Verdict.UNAVAILABLE, "not_durable")
        assert room.receiver.pressure.problem
        room.sink.error = None
        assert (await room.accept(traces())).records == 3
        assert room.receiver.pressure.problem is None

    run(work, tmp_path)


def test_a_message_larger_than_allowed_is_refused(tmp_path: Path) -> None:
    """Plain and packed."""

    async def work(room: Room) -> None:
        for body, packing in ((traces(50), Packing.NONE), (gzip.compress(traces(50)), Packing.GZIP)):
            with pytest.raises(Refusal) as caught:
                await room.accept(body, packing=packing)
            assert caught.value.verdict is Verdict.TOO_LARGE

    run(work, tmp_path, max_message_bytes=1024)


@pytest.mark.parametrize(
    "document",
    [
        {"Records": [{"eventName": "ObjectCreated:Put"}]},
        {"Type": "Notification", "Message": "{}"},
        {"EventName": "s3:ObjectCreated:Put", "Key": "bucket/key", "Records": []},
    ],
)
def test_an_event_is_kept_as_it_came(tmp_path: Path, document: dict[str, Any]) -> None:
    """From S3, wrapped by SNS, or from MinIO."""
    body = json.dumps(document).encode()

    async def work(room: Room) -> None:
        await room.events.accept(Caller("acme"), body)
        [frame] = room.sink.frames
        assert frame == Frame(Kind.EVENT, "acme", frame.received_unix_nano, body, Encoding.JSON)

    run(work, tmp_path)


def test_a_subscription_is_never_confirmed_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Its address may lead anywhere: it is neither followed nor shown, and a topic that is none is not named."""
    topic, token = "arn:aws:sns:eu-west-1:123456789012:raw-files", "2336412f37fb687f5d51e6e2425e90cc"
    request = {"Type": "SubscriptionConfirmation", "SubscribeURL": "https://evil.example/confirm"}
    bodies = [
        json.dumps(request | {"TopicArn": topic, "Token": token}).encode(),
        json.dumps(request | {"TopicArn": "https://evil.example/topic", "Token": token}).encode(),
        json.dumps(request | {"TopicArn": topic, "Token": "https://evil.example/token"}).encode(),
        json.dumps(request).encode(),
    ]

    async def work(room: Room) -> None:
        for body in bodies:
            await room.events.accept(Caller("acme"), body)
        assert room.sink.frames == []

    run(work, tmp_path)
    logged = "".join([*capsys.readouterr(), caplog.text])
    assert "evil.example" not in logged
    assert "open the address" not in logged
    assert logged.count(topic) == logged.count(token) == 1
    assert logged.count("is ignored") == 3


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"text"', b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}"])
def test_what_is_no_event_is_malformed(tmp_path: Path, body: bytes) -> None:
    """Only that it is a JSON object is asked here."""

    async def work(room: Room) -> None:
        with pytest.raises(Refusal) as caught:
            await room.events.accept(Caller("acme"), body)
        assert caught.value.verdict is Verdict.MALFORMED

    run(work, tmp_path)


def test_a_refused_message_counts_against_the_quota(tmp_path: Path) -> None:
    """By its unpacked size: a bomb of a few kilobytes costs its sender what it cost the receiver, and nobody else."""
    bomb = gzip.compress(b"\xff" * 3_000_000)

    async def work(room: Room) -> None:
        limits = [LimitConfig(organization=name, bytes_per_second=10_000) for name in ("acme", "umbrella")]
        room.receiver = replace(room.receiver, quotas=Quotas(limits))
        with pytest.raises(Refusal) as malformed:
            await room.accept(bomb, packing=Packing.GZIP)
        assert malformed.value.verdict is Verdict.MALFORMED
        with pytest.raises(Refusal) as over:
            room.receiver.admit(Caller("acme", ""))
        assert over.value.verdict is Verdict.BUSY
        assert (over.value.retry_after_seconds or 0) > 100
        room.receiver.admit(Caller("umbrella", ""))

    run(work, tmp_path)


def test_a_message_that_others_leave_no_room_for_costs_nothing(tmp_path: Path) -> None:
    """Its sender is asked to come back."""

    async def work(room: Room) -> None:
        room.receiver = replace(
            room.receiver, quotas=Quotas([LimitConfig(organization="acme", bytes_per_second=10_000)])
        )
        with room.receiver.budget.hold() as others:
            others.grow(2**20 - 200_000)
            with pytest.raises(Refusal) as busy:
                await room.accept(gzip.compress(traces(3000)), packing=Packing.GZIP)
        assert busy.value.verdict.is_retryable
        room.receiver.admit(Caller("acme", ""))

    run(work, tmp_path, max_inflight_bytes=2**20, max_message_bytes=2**20)
