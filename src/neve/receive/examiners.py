"""Worker pool for the examination of bodies: small ones inline, JSON in a thread, large ones in child processes.

Protobuf's reader into Arrow holds Python's lock, so a thread would not keep a large body from blocking all other
requests; a process does. A child has a memory limit and a time limit. A child that dies is replaced and the body
tried once more, since the machine may have killed it for another reason. A body that kills two children is refused.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.child_process import Child, ChildFailed, serve_requests
from neve.logger import get_logger
from neve.model.signals import Signal
from neve.otlp.bounds import Bounds, max_entries, max_objects
from neve.otlp.decode_result import Intake
from neve.raw.frame import Encoding
from neve.receive.check import MalformedPart
from neve.receive.examine import NO_REDACTION, Examined, Rules, examine
from neve.receive.refusal import Refusal, Verdict
from neve.redaction.config import RedactionConfig
from neve.time_slices import DEFAULT, request_time_slices

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from neve.lake.child_process import Header
    from neve.receive.config import ReceiverConfig

MODULE = "neve.receive.examiners"
NICENESS = 5  # the receiver's event loop has priority
START_SECONDS = 120.0  # imports are slow on a busy machine
ATTEMPTS = 2
JSON_FACTOR = 4
# Bodies up to these limits are examined inline, which blocks other requests. In the most expensive case (empty metrics)
# that takes about 4 ms. Bytes that may begin a group, a record or a point are counted in bodies over `COUNTED_BYTES`,
# and those that may begin any entry in bodies over `INLINE_BYTES`. Ordinary exports are below both counts.
COUNTED_BYTES, INLINE_BUILT = 8 * 1024, 24 * 1024
INLINE_BYTES, INLINE_ENTRIES = 192 * 1024, 64 * 1024

log = get_logger("neve.receive")


@dataclass
class OrganizationQueue:
    """Bodies of one organization: its semaphore, and how many bodies hold it or wait for it."""

    places: asyncio.Semaphore
    bodies: int = 0


class FairQueue:
    """Fair queue: each organization may examine a number of bodies at a time, and its further bodies wait.

    Bodies of other organizations do not wait for them.
    """

    def __init__(self, most_each: int) -> None:
        self._most_each = most_each
        self._lines: dict[str, OrganizationQueue] = {}

    @asynccontextmanager
    async def take(self, organization: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        line = self._lines.setdefault(organization, OrganizationQueue(asyncio.Semaphore(self._most_each)))
        line.bodies += 1
        try:
            async with line.places:
                yield
        finally:
            line.bodies -= 1
            if not line.bodies:
                del self._lines[organization]


class Examiners:
    """The thread for small JSON bodies, and the processes for large bodies of both encodings."""

    def __init__(self, config: ReceiverConfig, redaction: RedactionConfig = NO_REDACTION) -> None:
        self._config = config
        self._rules = Rules.of(config, redaction)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="otlp-json")
        self._turns = FairQueue(1)
        self._children = ExaminerProcesses(config, redaction) if config.check_processes else None

    async def warm_up(self) -> None:
        """Create the JSON reader before the receiver accepts requests.

        This takes a second, in which other requests would hardly progress. A child process starts in parallel, and
        nothing waits for it.
        """
        if self._children is not None:
            self._children.start_one()
        await self._in_thread(Signal.TRACES, b"{}", Intake("", 0))

    def is_large(self, body: bytes, encoding: Encoding = Encoding.PROTOBUF) -> bool:
        """Return whether a plain body is examined in another process, because of its size or its possible content.

        JSON takes longer and has one thread for all, in turns by organization.
        """
        if self._children is None:
            return False
        if encoding is Encoding.JSON:
            return len(body) > self._config.large_bytes // JSON_FACTOR
        if len(body) > self._config.large_bytes:
            return True
        if len(body) > COUNTED_BYTES and max_objects(body) > INLINE_BUILT:
            return True
        return len(body) > INLINE_BYTES and max_entries(body) > INLINE_ENTRIES

    def examine_here(self, signal: Signal, body: bytes, intake: Intake) -> Examined | None:
        """Examine a protobuf message in this thread; raises `Refusal`.

        Returns nothing if it has malformed records, which a process has to find.
        """
        try:
            is_quick = self._children is not None
            return examine(signal, body, Encoding.PROTOBUF, intake, self._rules, is_quick=is_quick)
        except MalformedPart:
            return None

    async def examine(self, signal: Signal, body: bytes, encoding: Encoding, intake: Intake) -> Examined:
        """Examine a body where it does not block other requests; raises `Refusal`."""
        if not self.is_large(body, encoding):
            if encoding is Encoding.JSON:
                return await self._in_thread(signal, body, intake)
            if (found := self.examine_here(signal, body, intake)) is not None:
                return found
        return await self.examine_apart(signal, body, encoding, intake)

    async def examine_apart(self, signal: Signal, body: bytes, encoding: Encoding, intake: Intake) -> Examined:
        """Examine a body in another process; raises `Refusal`."""
        if self._children is None:
            return examine(signal, body, encoding, intake, self._rules)
        return await self._children.examine(signal, body, encoding, intake)

    def close(self) -> None:
        """Stop the thread and the processes."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._children is not None:
            self._children.close()

    async def _in_thread(self, signal: Signal, text: bytes, intake: Intake) -> Examined:
        async with self._turns.take(intake.organization_id):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, examine, signal, text, Encoding.JSON, intake, self._rules)


class ExaminerProcesses:
    """Processes that examine large bodies. If there are several, an organization never occupies all of them."""

    def __init__(self, config: ReceiverConfig, redaction: RedactionConfig = NO_REDACTION) -> None:
        self._config = config
        self._redaction = {
            "rules": redaction.model_dump(mode="json")["rules"],
            "salt": redaction.salt.get_secret_value(),
        }
        self._turns = FairQueue(max(1, config.check_processes - 1))
        self._threads = ThreadPoolExecutor(config.check_processes, thread_name_prefix="otlp-large")
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._closed = False

    async def examine(self, signal: Signal, body: bytes, encoding: Encoding, intake: Intake) -> Examined:
        """Return the result of a child; raises `Refusal` with the child's reason, or because the child ended."""
        async with self._turns.take(intake.organization_id):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._examine_in_child, signal, body, encoding, intake)

    def start_one(self) -> None:
        """Start a child that waits for the first large body."""
        with suppress(RuntimeError):  # closed in the meantime
            self._threads.submit(lambda: self._give_back(self._take()))

    def close(self) -> None:
        """Stop all children."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = self._all.difference(idle)
        for child in idle:
            child.close()
        for child in busy:
            child.kill()  # the thread that waits for the child closes it
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _examine_in_child(self, signal: Signal, body: bytes, encoding: Encoding, intake: Intake) -> Examined:
        header = {
            "organization": intake.organization_id,
            "signal": signal.value,
            "encoding": encoding.value,
            "received": intake.received_unix_nano,
            "max_future": intake.max_future_nanos,
            "bounds": vars(self._config.bounds),
            "max_nesting": self._config.max_nesting,
            "redaction": self._redaction,
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
                raise _start_refusal(error) from None
            self._all.add(child)
        try:
            child.wait_ready(START_SECONDS)
        except ChildFailed as error:
            self._give_back(child)
            raise _start_refusal(error) from None
        return child

    def _give_back(self, child: Child) -> None:
        with self._lock:
            if child.is_fit and not self._closed:
                self._idle.append(child)
                return
            self._all.discard(child)
        child.close()


def _start_refusal(error: ChildFailed) -> Refusal:
    message = f"the process that checks large messages did not start: {error.message}"
    return Refusal(Verdict.UNAVAILABLE, "check_failed", message)


def answer_request(header: Header, body: bytes) -> tuple[Header, bytes]:
    """Return the response of a child: the result of the check, or the reason of the refusal."""
    intake = Intake(header["organization"], header["received"], header["max_future"])
    redaction = RedactionConfig.model_validate(header["redaction"])
    rules = Rules(Bounds(**header["bounds"]), header["max_nesting"], redaction)
    try:
        found = examine(Signal(header["signal"]), body, Encoding(header["encoding"]), intake, rules)
    except Refusal as refusal:
        return {"refused": refusal.verdict.name, "reason": refusal.reason, "words": refusal.message}, b""
    return found.header, found.message or b""


def main() -> None:
    """Load the modules that every request needs, then serve requests until the parent has exited."""
    os.nice(NICENESS)
    request_time_slices(DEFAULT)  # a child starts with the short ones of the receiver
    rules = Rules(Bounds(), 64)
    for signal in Signal:
        for body, encoding in ((b"", Encoding.PROTOBUF), (b"{}", Encoding.JSON)):
            examine(signal, body, encoding, Intake("", 0), rules)
    serve_requests(answer_request, int(sys.argv[1]))


if __name__ == "__main__":
    main()
