"""Where bodies are examined: small ones at once, JSON in a thread of its own, large ones in child processes.

Protobuf's reader into Arrow holds Python's lock, so that a thread would not keep a large body from holding up everyone
else; a process does. A child has a memory limit and a time limit. One that dies is replaced and the body tried once
more, since the machine may have killed it for another's sake; a body that ends two children is refused.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from neve.lake.child import Child, ChildFailed, serve_requests
from neve.model.signals import Signal
from neve.otlp.batch import Intake
from neve.otlp.bounds import Bounds, most_entries
from neve.raw.frame import Encoding
from neve.receive.examine import Examined, Rules, examine
from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from neve.lake.child import Header
    from neve.receive.config import ReceiverConfig

MODULE = "neve.receive.examiners"
START_SECONDS = 120.0  # a busy machine may take long to import everything
ATTEMPTS = 2
JSON_FACTOR = 4
# What is examined at once, while nobody else is served. Ordinary exports have less than the bytes and are not counted.
# One of more may have so many entries, which takes about 10 ms where they are as dear as can be (empty metrics).
INLINE_BYTES, INLINE_ENTRIES = 192 * 1024, 64 * 1024

log = structlog.get_logger("neve.receive")


@dataclass
class Line:
    """The bodies of one organization: the places that they may have at a time, and how many there are."""

    places: asyncio.Semaphore
    bodies: int = 0


class Turns:
    """Gives each organization a number of places at a time; further bodies of it wait in line, and no others do."""

    def __init__(self, most_each: int) -> None:
        self._most_each = most_each
        self._lines: dict[str, Line] = {}

    @asynccontextmanager
    async def take(self, organization: str) -> AsyncIterator[None]:
        """Wait for a place and have it."""
        line = self._lines.setdefault(organization, Line(asyncio.Semaphore(self._most_each)))
        line.bodies += 1
        try:
            async with line.places:
                yield
        finally:
            line.bodies -= 1
            if not line.bodies:
                del self._lines[organization]


class Examiners:
    """The thread that reads small JSON bodies, and the processes for large bodies of either encoding."""

    def __init__(self, config: ReceiverConfig) -> None:
        self._config = config
        self._rules = Rules.of(config)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="otlp-json")
        self._turns = Turns(1)
        self._children = Children(config) if config.check_processes else None

    async def warm_up(self) -> None:
        """Make the JSON reader, which takes a second in which nothing else gets far: better before the doors open.

        A child process starts beside it; nobody waits for that.
        """
        if self._children is not None:
            self._children.start_one()
        await self._in_thread(Signal.TRACES, b"{}", Intake("", 0))

    def is_large(self, body: bytes, encoding: Encoding = Encoding.PROTOBUF) -> bool:
        """Whether a plain body is examined in another process, for its size or for what it may hold.

        JSON takes longer and has one thread for all, in turns by organization.
        """
        if self._children is None:
            return False
        if encoding is Encoding.JSON:
            return len(body) > self._config.large_bytes // JSON_FACTOR
        if len(body) > self._config.large_bytes:
            return True
        return len(body) > INLINE_BYTES and most_entries(body) > INLINE_ENTRIES

    def examine_here(self, signal: Signal, body: bytes, intake: Intake) -> Examined:
        """Examine a protobuf message in this thread; raises `Refusal`."""
        return examine(signal, body, Encoding.PROTOBUF, intake, self._rules)

    async def examine(self, signal: Signal, body: bytes, encoding: Encoding, intake: Intake) -> Examined:
        """Examine a body where it disturbs nobody; raises `Refusal`."""
        if self._children is not None and self.is_large(body, encoding):
            return await self._children.examine(signal, body, encoding, intake)
        if encoding is Encoding.JSON:
            return await self._in_thread(signal, body, intake)
        return self.examine_here(signal, body, intake)

    def close(self) -> None:
        """End the thread and the processes."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._children is not None:
            self._children.close()

    async def _in_thread(self, signal: Signal, text: bytes, intake: Intake) -> Examined:
        async with self._turns.take(intake.organization_id):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, examine, signal, text, Encoding.JSON, intake, self._rules)


class Children:
    """Processes that examine large bodies; an organization never has all of them where there are several."""

    def __init__(self, config: ReceiverConfig) -> None:
        self._config = config
        self._turns = Turns(max(1, config.check_processes - 1))
        self._threads = ThreadPoolExecutor(config.check_processes, thread_name_prefix="otlp-large")
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._closed = False

    async def examine(self, signal: Signal, body: bytes, encoding: Encoding, intake: Intake) -> Examined:
        """What a child finds; raises `Refusal` with its words, or because it ended."""
        async with self._turns.take(intake.organization_id):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._ask, signal, body, encoding, intake)

    def start_one(self) -> None:
        """Start a child that waits for the first large body."""
        with suppress(RuntimeError):  # closed meanwhile
            self._threads.submit(lambda: self._give_back(self._take()))

    def close(self) -> None:
        """End all children."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = self._all.difference(idle)
        for child in idle:
            child.close()
        for child in busy:
            child.kill()  # the thread that waits for it closes it
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, signal: Signal, body: bytes, encoding: Encoding, intake: Intake) -> Examined:
        header = {
            "signal": signal.value,
            "encoding": encoding.value,
            "received": intake.received_unix_nano,
            "max_future": intake.max_future_nanos,
            "bounds": vars(self._config.bounds),
            "max_nesting": self._config.max_nesting,
        }
        failure = ""
        for _attempt in range(ATTEMPTS):
            child = self._take()
            try:
                answer, message = child.ask(header, body, self._config.check_seconds)
            except ChildFailed as error:
                failure = error.message
                log.warning("the check of a message failed", signal=signal, bytes=len(body), reason=failure)
                if error.by_limit:
                    break
                continue
            finally:
                self._give_back(child)
            if "refused" in answer:
                raise Refusal(Verdict[answer["refused"]], answer["reason"], answer["words"])
            return Examined.of(answer, message)
        raise Refusal(Verdict.TOO_LARGE, "check_failed", f"the message could not be checked: {failure}")

    def _take(self) -> Child:
        with self._lock:
            if self._closed:
                raise Refusal(Verdict.UNAVAILABLE, "stopping", "the receiver is stopping")
            if self._idle:
                return self._idle.pop()
            try:
                child = Child(MODULE, self._config.check_memory_bytes)
            except ChildFailed as error:
                raise _no_start(error) from None
            self._all.add(child)
        try:
            child.wait_ready(START_SECONDS)
        except ChildFailed as error:
            self._give_back(child)
            raise _no_start(error) from None
        return child

    def _give_back(self, child: Child) -> None:
        with self._lock:
            if child.is_fit and not self._closed:
                self._idle.append(child)
                return
            self._all.discard(child)
        child.close()


def _no_start(error: ChildFailed) -> Refusal:
    words = f"the process that checks large messages did not start: {error.message}"
    return Refusal(Verdict.UNAVAILABLE, "check_failed", words)


def answer_request(header: Header, body: bytes) -> tuple[Header, bytes]:
    """What a child answers: what it found of a body, or why the body is refused."""
    intake = Intake("", header["received"], header["max_future"])
    rules = Rules(Bounds(**header["bounds"]), header["max_nesting"])
    try:
        found = examine(Signal(header["signal"]), body, Encoding(header["encoding"]), intake, rules)
    except Refusal as refusal:
        return {"refused": refusal.verdict.name, "reason": refusal.reason, "words": refusal.message}, b""
    return found.header, found.message or b""


def main() -> None:
    """Load what every request needs, then answer until the parent is gone."""
    rules = Rules(Bounds(), 64)
    for signal in Signal:
        for body, encoding in ((b"", Encoding.PROTOBUF), (b"{}", Encoding.JSON)):
            examine(signal, body, encoding, Intake("", 0), rules)
    serve_requests(answer_request, int(sys.argv[1]))


if __name__ == "__main__":
    main()
