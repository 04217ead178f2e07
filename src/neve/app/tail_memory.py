"""Tail sampling in memory as the settings describe it: feeds in, kept traces out, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal as signals
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import structlog

from neve.app.memory_receiver import memory_receiver
from neve.app.service import NANOS
from neve.app.tail import build_claims, build_policies
from neve.app.wiring import build_lake
from neve.errors import ConfigError
from neve.ingest.decoder import decode_within
from neve.lake.calendar import now_utc
from neve.model.signals import Signal
from neve.tail.export.build import build
from neve.tail.memory.kafka import KafkaFeed, KafkaSource
from neve.tail.memory.log import DecisionLog
from neve.tail.memory.selector import MemorySelector
from neve.tail.tally import Count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from neve.app.service import ReceiverParts
    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.tail.memory.result import MemoryResult

Feed = Literal["receiver", "kafka"]
Doors = Callable[["ReceiverParts"], AbstractAsyncContextManager[Any]]
Tell = Callable[["MemoryResult"], None]
SPARK_PREFIX = "kafka."  # of those options of Spark's source that are for Kafka's client

log = structlog.get_logger("neve.tail")


@dataclass
class MemoryRun:
    """What a selector in memory did while it ran; `undelivered` are spans that destinations lack at the end."""

    cycles: int = 0
    spans: int = 0
    decided: Count = field(default_factory=Count)
    sampled: Count = field(default_factory=Count)
    early: Count = field(default_factory=Count)
    lost: dict[str, int] = field(default_factory=dict)
    undelivered: dict[str, int] = field(default_factory=dict)

    def add(self, result: MemoryResult) -> None:
        """One more cycle."""
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
    """The selector; with a lake its decisions are written to `trace_decisions`."""
    config = settings.tail
    destinations = [build(one, lake or build_lake(settings)) for one in config.export.destinations]
    return MemorySelector(
        config,
        build_policies(config, policies),
        clock,
        build_claims(config),
        destinations,
        log=DecisionLog(lake, config.name) if lake else None,
        tell=tell,
    )


def build_kafka_feed(settings: Settings, selector: MemorySelector) -> KafkaFeed:
    """The topics of traces; raises `ConfigError` where there are none that can be read here."""
    kafka = settings.kafka
    topics = [topic for topic in kafka.topics if topic.signal is Signal.TRACES]
    if not topics:
        raise ConfigError("kafka.topics has no topic of traces", hint="tail sampling in memory reads those alone")
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
        log.info("options of Spark's source mean nothing here", options=passed_over)
    source = KafkaSource(
        settings.tail.name,
        kafka.bootstrap_servers,
        {topic.topic: topic.organization or settings.organization for topic in topics},
        kafka.starting,
        settings.ingest.max_future_seconds * NANOS,
        options,
    )
    return KafkaFeed(source, selector, partial(decode_within, settings.ingest.bounds, Signal.TRACES))


def log_result(result: MemoryResult) -> None:
    """Say in the log what a cycle did, and at its debug level every decision."""
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
    """Take spans in and decide about their traces until SIGTERM, SIGINT or the event.

    Then nothing more is taken, everything that is held is decided and delivered, and what could not be is told.
    `doors` opens the receiver's doors and gives their addresses, which `ready` is told when all feeds run.
    """
    if not feeds or ("receiver" in feeds and doors is None):
        raise ConfigError("tail sampling in memory has no feed", hint="expected receiver (with doors), kafka or both")
    run = MemoryRun()

    def told(result: MemoryResult) -> None:
        run.add(result)
        tell(result)

    selector = build_memory_selector(settings, lake, policies=policies, tell=told)
    service = _Service(settings, selector, stop or threading.Event(), beside_raw=beside_raw)
    run.undelivered = asyncio.run(service.run(doors if "receiver" in feeds else None, ready, kafka="kafka" in feeds))
    return run


class _Service:
    """Feeds, cycles and deliveries of one run."""

    def __init__(
        self, settings: Settings, selector: MemorySelector, stop: threading.Event, *, beside_raw: bool
    ) -> None:
        self._settings, self._selector, self._stop, self._beside_raw = settings, selector, stop, beside_raw
        self._failure: BaseException | None = None

    async def run(self, doors: Doors | None, ready: Callable[[Any], None], *, kafka: bool) -> dict[str, int]:
        """What destinations lack at the end."""
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
        """Until it is told to stop; requests in flight are finished then."""
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
            except Exception:  # what is held stays held, and the next cycle decides about it
                log.exception("a cycle failed", selector=self._settings.tail.name)

    def _read(self, topics: KafkaFeed) -> None:
        try:
            topics.read(self._stop)
        except BaseException as error:  # told at the end: what is held is decided first
            self._failure = error
            self._stop.set()


@contextmanager
def _stop_signals(stop: threading.Event) -> Iterator[None]:
    """Set an event when the process is told to stop; only the main thread hears of that."""
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
