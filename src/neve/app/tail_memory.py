"""Tail sampling in memory, wired from the settings: receiver and Kafka feeds, decision cycles and deliveries.

Its receiver holds spans in memory instead of writing them to the raw zone, or does both.
"""

from __future__ import annotations

import asyncio
import signal as signals
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from neve.app.serve.guards import build_guard
from neve.app.serve.receiver import NANOS, ReceiverParts, open_examiners, receiver_parts
from neve.app.tail import build_claims, build_policies
from neve.app.wiring import build_lake
from neve.errors import ConfigError
from neve.ingest.decoder import decode_within
from neve.lake.calendar import now_utc
from neve.logger import get_logger
from neve.model.signals import Signal
from neve.raw.frame import Kind
from neve.raw.zone import EVENTS, OTLP, RawZone
from neve.receive.backpressure import Backpressure
from neve.receive.config import check_receiver
from neve.receive.events import CheckedEvent, EventReceiver
from neve.receive.quotas import Quotas
from neve.receive.receiver import Receiver
from neve.receive.refusal import Refusal, Verdict
from neve.tail.decisions import TraceCount
from neve.tail.export.exporter import build_destination
from neve.tail.memory.kafka_feed import KafkaFeed, KafkaSource
from neve.tail.memory.receiver_feed import BufferAppender
from neve.tail.memory.selector import DecisionLog, MemorySelector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.errors import RawZoneError
    from neve.lake.lake import Lake
    from neve.raw.frame import Frame
    from neve.receive.budget import Hold
    from neve.receive.receiver import Appender, Export
    from neve.receive.response import Answer
    from neve.state.scopes import Caller
    from neve.tail.memory.cycle import MemoryCycleResult


HINT = "send it to `neve serve`, or let this receiver store everything in the raw zone too"


class TraceReceiver(Receiver):
    """A receiver of traces; other signals are rejected, since they can't be stored."""

    async def accept(self, export: Export, hold: Hold) -> Answer:
        """Return when the spans are held in memory; raises `Refusal` for other signals."""
        if export.signal is not Signal.TRACES:
            raise _unsupported_refusal(
                f"{export.signal} are not accepted: this receiver feeds tail sampling in memory ({HINT})"
            )
        return await super().accept(export, hold)


class NoEvents(EventReceiver):
    """A receiver that rejects all event notifications."""

    async def accept(self, _caller: Caller, _body: bytes) -> CheckedEvent:
        """Reject the event."""
        raise _unsupported_refusal(
            f"notifications are not accepted: this receiver feeds tail sampling in memory ({HINT})"
        )


class HeldPressure(Backpressure):
    """Backpressure of the memory store.

    It evicts spans by itself, so that only a failure to hold spans makes it not ready.
    """

    def record_failure(self, error: RawZoneError) -> Refusal:
        """Record that spans could not be held, and return the response to the client."""
        super().record_failure(error)
        return Refusal(Verdict.UNAVAILABLE, "not_held", error.message)


@dataclass(frozen=True)
class RawAndHeldAppender:
    """Appender that writes frames to the raw zone, and feeds traces to the selector when they are durable."""

    durable: Appender
    held: Appender

    async def append(self, frame: Frame) -> None:
        """Return when the frame is durable and its spans are held; raises `RawZoneError` if they are not."""
        await self.durable.append(frame)
        if frame.kind is Kind.TRACES:
            await self.held.append(frame)


@asynccontextmanager
async def memory_receiver(
    settings: Settings, selector: MemorySelector, *, beside_raw: bool = False
) -> AsyncIterator[ReceiverParts]:
    """Open the receiver without its ports; `beside_raw` also writes all signals to the raw zone."""
    nanos = settings.ingest.max_future_seconds * NANOS
    held = BufferAppender(
        selector, selector.config.name, partial(decode_within, settings.ingest.bounds, Signal.TRACES), nanos
    )
    if beside_raw:
        async with receiver_parts(settings) as parts:
            yield replace(
                parts, receiver=replace(parts.receiver, appender=RawAndHeldAppender(parts.receiver.appender, held))
            )
        return
    config = settings.receiver
    check_receiver(config)
    async with AsyncExitStack() as parts:
        examiners, metrics, budget = await open_examiners(settings, parts)
        pressures = [HeldPressure(RawZone.of(settings.raw.location, settings.s3, zone), 0) for zone in (OTLP, EVENTS)]
        quotas = Quotas(config.limits)
        receiver = TraceReceiver(config, nanos, held, budget, pressures[0], examiners, metrics, quotas)
        yield ReceiverParts(
            receiver, NoEvents(held, pressures[1], config.max_nesting, _no_files), build_guard(settings, parts)
        )


def _no_files(_organization: str, _body: bytes) -> CheckedEvent:
    return CheckedEvent(0)


def _unsupported_refusal(words: str) -> Refusal:
    return Refusal(Verdict.UNSUPPORTED, "traces_only", words)


Feed = Literal["receiver", "kafka"]
Doors = Callable[["ReceiverParts"], AbstractAsyncContextManager[Any]]
Tell = Callable[["MemoryCycleResult"], None]
SPARK_PREFIX = "kafka."  # of options of Spark's source that are passed to Kafka's client

log = get_logger("neve.tail")


@dataclass
class MemoryRun:
    """The result of a run of the selector in memory; `undelivered` are spans that destinations lack at the end."""

    cycles: int = 0
    spans: int = 0
    decided: TraceCount = field(default_factory=TraceCount)
    sampled: TraceCount = field(default_factory=TraceCount)
    early: TraceCount = field(default_factory=TraceCount)
    lost: dict[str, int] = field(default_factory=dict)
    undelivered: dict[str, int] = field(default_factory=dict)

    def add(self, result: MemoryCycleResult) -> None:
        """Add the result of one cycle."""
        self.cycles += 1
        self.spans += result.spans
        self.decided += result.decided
        self.sampled += result.sampled
        self.early += result.early
        for name, spans in result.lost.items():
            self.lost[name] = self.lost.get(name, 0) + spans


def build_memory_selector(
    settings: Settings,
    lake: Lake | None = None,
    *,
    policies: str | None = None,
    tell: Tell = lambda _result: None,
    clock: Callable[[], datetime] = now_utc,
) -> MemorySelector:
    """Build the selector; with a lake, its decisions are written to `trace_decisions`."""
    config = settings.tail
    destinations = [build_destination(one, lake or build_lake(settings)) for one in config.export.destinations]
    return MemorySelector(
        config,
        build_policies(config, policies),
        clock,
        build_claims(config),
        destinations,
        log=DecisionLog(lake, config.name) if lake else None,
        report=tell,
    )


def build_kafka_feed(settings: Settings, selector: MemorySelector) -> KafkaFeed:
    """Build the feed of trace topics; raises `ConfigError` if there is no topic that this process can read."""
    kafka = settings.kafka
    topics = [topic for topic in kafka.topics if topic.signal is Signal.TRACES]
    if not topics:
        raise ConfigError("kafka.topics has no topic of traces", hint="tail sampling in memory reads traces only")
    wrong = [topic.topic for topic in topics if topic.encoding == "otlp_json"]
    if wrong:
        raise ConfigError(
            f"kafka.topics: {', '.join(wrong)} is otlp_json, expected otlp_proto",
            hint="tail sampling in memory reads protobuf; `neve ingest stream` reads both into the lake",
        )
    options = {
        name.removeprefix(SPARK_PREFIX): value for name, value in kafka.options.items() if name.startswith(SPARK_PREFIX)
    }
    passed_over = sorted(name for name in kafka.options if not name.startswith(SPARK_PREFIX))
    if passed_over:
        log.info("options of Spark's Kafka source have no effect here", options=passed_over)
    source = KafkaSource(
        settings.tail.name,
        kafka.bootstrap_servers,
        {topic.topic: topic.organization or settings.organization for topic in topics},
        kafka.starting,
        settings.ingest.max_future_seconds * NANOS,
        options,
    )
    return KafkaFeed(source, selector, partial(decode_within, settings.ingest.bounds, Signal.TRACES))


def log_result(result: MemoryCycleResult) -> None:
    """Log the result of a cycle, and every decision at the debug level."""
    if result.committed:
        log.info("cycle", **result.as_document())
    for remark in result.remarks:
        log.warning("tail", selector=result.selector, remark=remark)
    for row in result.decisions.select(["trace_id", "kind", "decision", "policy", "reason"]).to_pylist():
        log.debug("decision", **{**row, "trace_id": row["trace_id"].hex()})


def run_memory(  # noqa: PLR0913 - what a run may be told
    settings: Settings,
    *,
    feeds: Sequence[Feed] = ("receiver",),
    doors: Doors | None = None,
    lake: Lake | None = None,
    policies: str | None = None,
    stop: threading.Event | None = None,
    ready: Callable[[Any], None] = lambda _addresses: None,
    tell: Tell = log_result,
    beside_raw: bool = False,
) -> MemoryRun:
    """Ingest spans and decide about their traces until SIGTERM, SIGINT or the event.

    Then input stops, all held traces are decided and delivered, and failed deliveries are reported. `doors` opens the
    receiver's ports and returns their addresses, which are passed to `ready` when all feeds run.
    """
    if not feeds or ("receiver" in feeds and doors is None):
        raise ConfigError("tail sampling in memory has no feed", hint="expected receiver, kafka or both")
    run = MemoryRun()

    def record(result: MemoryCycleResult) -> None:
        run.add(result)
        tell(result)

    selector = build_memory_selector(settings, lake, policies=policies, tell=record)
    service = _Service(settings, selector, stop or threading.Event(), beside_raw=beside_raw)
    run.undelivered = asyncio.run(service.run(doors if "receiver" in feeds else None, ready, kafka="kafka" in feeds))
    return run


class _Service:
    """The feeds, cycles and deliveries of one run."""

    def __init__(
        self, settings: Settings, selector: MemorySelector, stop: threading.Event, *, beside_raw: bool
    ) -> None:
        self._settings, self._selector, self._stop, self._beside_raw = settings, selector, stop, beside_raw
        self._failure: BaseException | None = None

    async def run(self, doors: Doors | None, ready: Callable[[Any], None], *, kafka: bool) -> dict[str, int]:
        """Run the service, and return the number of spans that each destination lacks at the end."""
        selector, seconds = self._selector, self._settings.receiver.drain_seconds
        topics = build_kafka_feed(self._settings, selector) if kafka else None
        with _stop_signals(self._stop):
            try:
                await self._serve(doors, ready, topics)
                await asyncio.to_thread(selector.decide, everything=True)
            finally:
                lacking = await asyncio.to_thread(selector.stop, seconds)
        if topics is not None:
            await asyncio.to_thread(topics.close)
        for name, spans in lacking.items():
            log.error("kept spans are not delivered", destination=name, spans=spans)
        if self._failure is not None:
            raise self._failure
        return lacking

    async def _serve(self, doors: Doors | None, ready: Callable[[Any], None], topics: KafkaFeed | None) -> None:
        """Serve until asked to stop, then finish the requests in flight."""
        async with AsyncExitStack() as opened:
            addresses = None
            if doors is not None:
                receiver = memory_receiver(self._settings, self._selector, beside_raw=self._beside_raw)
                addresses = await opened.enter_async_context(doors(await opened.enter_async_context(receiver)))
            self._selector.start()
            ready(addresses)
            reading = asyncio.to_thread(self._read, topics) if topics else asyncio.sleep(0)
            await asyncio.gather(asyncio.to_thread(self._cycles), reading)

    def _cycles(self) -> None:
        while not self._stop.wait(self._settings.tail.interval_seconds):
            try:
                self._selector.decide()
            except Exception:  # spans stay in memory, and the next cycle decides about them
                log.exception("a cycle failed", selector=self._settings.tail.name)

    def _read(self, topics: KafkaFeed) -> None:
        try:
            topics.read(self._stop)
        except BaseException as error:  # raised at the end: held traces are decided first
            self._failure = error
            self._stop.set()


@contextmanager
def _stop_signals(stop: threading.Event) -> Iterator[None]:
    """Set an event on SIGTERM or SIGINT; only the main thread receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number in (signals.SIGTERM, signals.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signals.SIGTERM, signals.SIGINT):
            with suppress(ValueError):
                loop.remove_signal_handler(number)
