"""Send a recording to receivers as live telemetry.

Playback is endless. It uses an OTLP/HTTP client with retries and one thread for each signal.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import randbits
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from neve.demo.message_template import GRAIN, ID_BYTES
from neve.demo.spans import SECOND
from neve.errors import ConfigError
from neve.http_client import HttpClient, NoReply
from neve.model.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.demo.message_template import IntArray, LapMessage
    from neve.demo.recording import Recording
    from neve.http_client import HttpReply


PREFIXES = 1 << (8 * ID_BYTES)


@dataclass(frozen=True)
class Playback:
    """Messages of a recording by signal and number, from 0; playbacks with different salts share no id."""

    recording: Recording
    began: int
    salt: int

    def due(self, signal: Signal, number: int) -> int:
        """Return the send time of a message in Unix nanoseconds; no record of the message is later."""
        lap, body = self._place(signal, number)
        return self._start(lap) + body.due

    def message(self, signal: Signal, number: int) -> bytes:
        """Return a message as OTLP protobuf."""
        lap, body = self._place(signal, number)
        return body.template.message(self._start(lap), self._prefix(lap))

    def keys(self, signal: Signal, number: int) -> IntArray:
        """Return the keys that identify the records of a message: the time of a log or a point, the id of a span."""
        lap, body = self._place(signal, number)
        if signal is Signal.TRACES:
            return body.keys + (self._prefix(lap) << 8 * ID_BYTES)
        return body.keys + self._start(lap)

    def records(self, signal: Signal, number: int) -> int:
        """Return the number of records in a message."""
        return self._place(signal, number)[1].records

    def find_failure(self, at: int) -> int | None:
        """Return when the first request failed in the last incident before a time, in Unix nanoseconds."""
        failure = self.recording.failure
        if failure is None or at < self._start(0) + failure.nanos:
            return None
        return self._start((at - failure.nanos - self._start(0)) // self.recording.nanos) + failure.nanos

    def _place(self, signal: Signal, number: int) -> tuple[int, LapMessage]:
        bodies = self.recording.bodies[signal]
        lap, place = divmod(number, len(bodies))
        return lap, bodies[place]

    def _start(self, lap: int) -> int:
        return self.began // GRAIN * GRAIN + lap * self.recording.nanos

    def _prefix(self, lap: int) -> int:
        """Return an id prefix below half of all numbers, so that an id is a positive 64-bit number."""
        return (self.salt + lap) % (PREFIXES // 2)


TIMEOUT_SECONDS = 30.0
PAUSE_SECONDS = 0.5  # before a retry without a Retry-After header
LONGEST_PAUSE_SECONDS = 30.0
HTTP_OK = 200
RETRY_STATUSES = (429, 502, 503, 504)  # retryable by the OTLP specification
MAX_REPLY_BYTES = 64 * 1024
HEADERS = {"Content-Type": "application/x-protobuf"}


@dataclass(frozen=True)
class SendResult:
    """The result of sending a message: acknowledged, to be retried after a pause, or rejected."""

    acknowledged: bool = False
    pause_seconds: float = 0.0
    refused: str = ""


class OtlpClient:
    """A client of several receivers: it sends to the first one that answers."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = [_check_address(address) for address in addresses]
        self._client = HttpClient(timeout_seconds=TIMEOUT_SECONDS, max_reply_bytes=MAX_REPLY_BYTES, headers=HEADERS)

    def send(self, signal: Signal, message: bytes) -> SendResult:
        """Send a message once."""
        try:
            reply = self._client.request("POST", f"{self._addresses[0]}/v1/{signal}", message)
        except NoReply:
            # It may be durable or not: the retry sends it unchanged, and the receiver recognizes a duplicate.
            self._addresses.append(self._addresses.pop(0))
            return SendResult(pause_seconds=PAUSE_SECONDS)
        return _read_reply(reply)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _check_address(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise ConfigError(f"the receiver's address is {address!r}, expected http://host:port")
    return f"http://{parts.netloc}"


def _read_reply(reply: HttpReply) -> SendResult:
    if reply.status in RETRY_STATUSES:
        pause = PAUSE_SECONDS if reply.retry_after is None else reply.retry_after
        return SendResult(pause_seconds=min(pause, LONGEST_PAUSE_SECONDS))
    if reply.status != HTTP_OK:
        return SendResult(refused=f"HTTP {reply.status}: {reply.body[:200]!r}")
    # A non-empty response reports a partial rejection.
    return SendResult(refused=f"partially rejected: {reply.body[:200]!r}") if reply.body else SendResult(True)


SALT_BITS = 31
MAX_REFUSALS = 20  # messages that are stored; all rejections are counted

OnAcknowledged: TypeAlias = Callable[[Signal, int], None]
"""Callback for each acknowledged message, with its signal and its number in the playback."""


@dataclass
class SentTotals:
    """Totals of sent messages."""

    records: dict[Signal, int] = field(default_factory=lambda: dict.fromkeys(Signal, 0))
    messages: int = 0
    retries: int = 0
    refused: int = 0
    refusals: list[str] = field(default_factory=list)


class LiveSender:
    """A sender with a thread for each signal. It retries messages, unchanged, until they are acknowledged.

    While a receiver is down nothing is skipped: records keep the times of the recording and are sent late.
    """

    def __init__(
        self,
        recording: Recording,
        addresses: Sequence[str],
        on_acknowledged: OnAcknowledged = lambda _signal, _number: None,
    ) -> None:
        self.playback = Playback(recording, time.time_ns(), randbits(SALT_BITS))
        self.sent = SentTotals()
        self._clients = {signal: OtlpClient(addresses) for signal in Signal}
        self._on_acknowledged = on_acknowledged
        self._lock = threading.Lock()
        self._stopping = threading.Event()  # no further message is started
        self._given_up = threading.Event()  # no further retry is started
        self._threads = [
            threading.Thread(target=self._send_all, args=(signal,), name=f"live {signal}", daemon=True)
            for signal in Signal
        ]

    def start(self) -> None:
        """Start sending."""
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 5.0) -> bool:
        """Stop sending; return whether all sent messages were acknowledged within the timeout."""
        self._stopping.set()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        finished = not any(thread.is_alive() for thread in self._threads)
        self._given_up.set()
        return finished

    def _send_all(self, signal: Signal) -> None:
        client = self._clients[signal]
        try:
            for number in itertools.count():
                wait_seconds = (self.playback.due(signal, number) - time.time_ns()) / SECOND
                if self._stopping.wait(max(0.0, wait_seconds)):
                    return
                self._deliver(client, signal, number)
        finally:
            client.close()

    def _deliver(self, client: OtlpClient, signal: Signal, number: int) -> None:
        message = self.playback.message(signal, number)
        while not self._given_up.is_set():
            result = client.send(signal, message)
            if result.acknowledged:
                self._count_acknowledged(signal, number)
                return
            with self._lock:
                if result.refused:
                    self.sent.refused += 1
                    self.sent.refusals = [*self.sent.refusals, f"{signal}: {result.refused}"][-MAX_REFUSALS:]
                    return
                self.sent.retries += 1
            self._given_up.wait(result.pause_seconds)

    def _count_acknowledged(self, signal: Signal, number: int) -> None:
        with self._lock:
            self.sent.messages += 1
            self.sent.records[signal] += self.playback.records(signal, number)
        self._on_acknowledged(signal, number)
