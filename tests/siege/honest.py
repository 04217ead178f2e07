"""The honest organization: it sends and asks at a steady rate, and measures how long it waits.

Waiting is counted from the moment when a request was due, so that a service that stands still for a while is not
measured by the one request that met it.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from neve.model.signals import Signal
from tests.parts.process import HOST
from tests.siege import messages
from tests.siege.messages import MARKS, NUMBER
from tests.siege.plan import HONEST, HOSTILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.siege.house import House
    from tests.siege.plan import Plan

ANSWER_SECONDS = 60.0
PAUSE_SECONDS = 0.2  # before a request is sent again
TRY_AGAIN = (429, 502, 503, 504)
CODES = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)
HTTP, GRPC, QUERY = "http", "grpc", "query"
QUESTIONS = (
    "SELECT count(*) AS n FROM logs",
    f"SELECT max(attributes['{NUMBER}']::BIGINT) AS n FROM logs WHERE timestamp > now() - INTERVAL 5 MINUTE",
    "SELECT operation_name, count(*) AS n, quantile_cont(duration_ms, 0.95) AS p FROM spans GROUP BY 1",
    "SELECT service_name, message FROM logs ORDER BY timestamp DESC LIMIT 20",
)


class Refused(Exception):
    """Raised when a request is refused for good."""


class Honest:
    """Threads that send logs over HTTP and spans over gRPC, and ask; everything is sent until it is acknowledged."""

    def __init__(self, house: House, plan: Plan) -> None:
        self.phase = "warm"
        self.waits: dict[tuple[str, str], list[float]] = {}  # by phase and protocol
        self.acknowledged: dict[Signal, list[range]] = {Signal.LOGS: [], Signal.TRACES: []}
        self.troubles: Counter[str] = Counter()
        self.again = self.foreign_rows = self.own_rows = 0
        self._house, self._plan = house, plan
        self._headers = {"authorization": f"Bearer {house.keys[HONEST]}"}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        channel = grpc.insecure_channel(f"{HOST}:{house.grpc_port}")
        self._stub: Any = TraceServiceStub(channel)  # type: ignore[no-untyped-call]
        rates = {
            HTTP: (plan.requests_per_second, self._send_logs),
            GRPC: (plan.requests_per_second, self._send_spans),
            QUERY: (plan.queries_per_second, self._ask),
        }
        self._threads = [
            threading.Thread(target=self._run, args=(name, rate, turn, turns, act), daemon=True)
            for name, (rate, act) in rates.items()
            for turn, turns in [(0, 2), (1, 2)]
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Send nothing new, and wait for what is on its way."""
        self._ended.set()
        for thread in self._threads:
            thread.join(2 * ANSWER_SECONDS)
            if thread.is_alive():
                self.troubles["a request has no answer at the end"] += 1

    def _run(self, name: str, rate: float, turn: int, turns: int, act: Callable[[Any, int], None]) -> None:
        """Act when it is time; two threads share a protocol, so that one slow answer does not hold up the rest."""
        began, number = time.monotonic(), turn
        connection = http.client.HTTPConnection(
            HOST, self._house.query_port if name == QUERY else self._house.http_port, timeout=ANSWER_SECONDS
        )
        while not self._ended.is_set():
            due = began + number / rate
            if self._ended.wait(max(0.0, due - time.monotonic())):
                break
            phase = self.phase
            try:
                act(connection, number)
            except Refused as error:
                self.troubles[f"{name}: {error}"] += 1
            except (OSError, http.client.HTTPException, grpc.RpcError) as error:
                self.troubles[f"{name}: {type(error).__name__}: {str(error)[:200]}"] += 1
                connection.close()
            with self._lock:
                self.waits.setdefault((phase, name), []).append(time.monotonic() - due)
            number += turns
        connection.close()

    def _numbers(self, number: int) -> range:
        return range(number * self._plan.records, (number + 1) * self._plan.records)

    def _send_logs(self, connection: http.client.HTTPConnection, number: int) -> None:
        numbers = self._numbers(number)
        body = messages.logs(HONEST, numbers, time.time_ns()).SerializeToString()
        headers = {**self._headers, "content-type": "application/x-protobuf"}
        self._until_accepted(lambda: _post(connection, "/v1/logs", body, headers))
        self._add(Signal.LOGS, numbers)

    def _send_spans(self, _connection: object, number: int) -> None:
        numbers = self._numbers(number)
        message = messages.traces(HONEST, numbers, time.time_ns())
        metadata = tuple(self._headers.items())

        def send() -> tuple[int, bytes]:
            try:
                self._stub.Export(message, metadata=metadata, timeout=ANSWER_SECONDS)
            except grpc.RpcError as error:
                if error.code() not in CODES:
                    raise
                return TRY_AGAIN[0], b""
            return 200, b""

        self._until_accepted(send)
        self._add(Signal.TRACES, numbers)

    def _ask(self, connection: http.client.HTTPConnection, number: int) -> None:
        body = json.dumps({"sql": QUESTIONS[number % len(QUESTIONS)]}).encode()
        headers = {**self._headers, "content-type": "application/json"}
        answer = self._until_accepted(lambda: _post(connection, "/api/v1/query", body, headers))
        with self._lock:
            self.foreign_rows += MARKS[HOSTILE].encode() in answer
            self.own_rows += MARKS[HONEST].encode() in answer

    def _until_accepted(self, send: Callable[[], tuple[int, bytes]]) -> bytes:
        """Send, again where the service says so or says nothing; raises `Refused` for any other answer."""
        while True:
            try:
                status, answer = send()
            except (OSError, http.client.HTTPException):
                status, answer = TRY_AGAIN[0], b""
            if status == http.HTTPStatus.OK:
                return answer
            if status not in TRY_AGAIN:
                raise Refused(f"{status} {answer[:200]!r}")
            with self._lock:
                self.again += 1
            if self._ended.wait(PAUSE_SECONDS):
                raise Refused("not acknowledged at the end")

    def _add(self, signal: Signal, numbers: range) -> None:
        with self._lock:
            self.acknowledged[signal].append(numbers)


def _post(connection: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        connection.close()  # the next request opens a new one
        raise
