"""The hostile organization, a process of its own at a low priority: threads that each attack in one way.

It prints `ready` when its bombs are built and begins at the first line of its input. At the second it stops, asks every
statement that would read foreign rows once more, and prints what it was answered as one line of JSON. Everything large
is built once and sent as it is: the service is to be measured.
"""

from __future__ import annotations

import gzip
import http.client
import itertools
import json
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]

from neve.raw.frame import Packing
from tests.fuzz import bombs
from tests.fuzz.wire import field as wire_field
from tests.parts.process import HOST
from tests.siege import messages, statements
from tests.siege.messages import MARKS
from tests.siege.plan import HONEST, HOSTILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NICENESS = 10
SLOW_SECONDS = 2.0  # between two bytes of a slow client
ANSWER_SECONDS = 60.0
STORM_ATTEMPTS, BUSY = 20, (429, 503)
FLOOD_RECORDS, FLOOD_BODIES = 200, 600
PROTOBUF, JSON, FORM = "application/x-protobuf", "application/json", "application/x-www-form-urlencoded"
GRPC_METHOD = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
GRPC_BYTES = 15 * 1024 * 1024


@dataclass(frozen=True)
class Place:
    """Where the service is, and the key of the attacker."""

    http_port: int
    grpc_port: int
    query_port: int
    key: str
    folder: str
    slow_clients: int


@dataclass
class Attack:
    """All threads, and what they were answered."""

    place: Place
    answers: Counter[str] = field(default_factory=Counter)
    foreign_rows: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, name: str, answer: int | str, body: bytes = b"") -> None:
        """Note an answer; a row of the honest side in it is the worst that can happen."""
        with self.lock:
            self.answers[f"{name} {answer}"] += 1
            if MARKS[HONEST].encode() in body:
                self.foreign_rows += 1

    def post(self, name: str, port: int, requests: Iterator[tuple[str, bytes, dict[str, str]]], pause: float) -> None:
        """Send one request after the other over one connection, as fast as the answers come."""
        connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_SECONDS)
        for path, body, headers in requests:
            if self.ended.wait(pause) or self.ended.is_set():
                break
            try:
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                self.count(name, response.status, response.read())
            except (OSError, http.client.HTTPException) as error:
                self.count(name, type(error).__name__)
                connection.close()
        connection.close()

    def headers(self, kind: str, packing: str = "") -> dict[str, str]:
        """Headers with the key."""
        found = {"authorization": f"Bearer {self.place.key}", "content-type": kind}
        return {**found, "content-encoding": packing} if packing else found

    def bombs(self, prepared: list[tuple[bytes, dict[str, str]]]) -> None:
        """Bodies that are small to send."""
        requests = (("/v1/traces", body, headers) for body, headers in itertools.cycle(prepared))
        self.post("bomb", self.place.http_port, requests, 0.05)

    def flood(self, bodies: list[bytes]) -> None:
        """Valid requests, as many as get through."""
        headers = self.headers(PROTOBUF, "gzip")
        requests = (("/v1/logs", body, headers) for body in itertools.cycle(bodies))
        self.post("flood", self.place.http_port, requests, 0)

    def strangers(self) -> None:
        """Keys that look like keys."""
        chance = random.Random("keys")
        keys = (
            {"authorization": f"Bearer neve_{chance.randbytes(31).hex()[:52]}", "content-type": JSON}
            for _ in itertools.count()
        )
        self.post("wrong key", self.place.http_port, (("/v1/logs", b"{}", headers) for headers in keys), 0.005)

    def announce(self) -> None:
        """Files that nobody may read."""
        events = statements.announcements(Path(self.place.folder))
        requests = (("/events/s3", event, self.headers(JSON)) for event in itertools.cycle(events))
        self.post("announcement", self.place.http_port, requests, 0.5)

    def ask(self, name: str, texts: list[str], pause: float) -> None:
        """Statements in turn."""
        bodies = (json.dumps({"sql": text}).encode("utf-8", "surrogatepass") for text in itertools.cycle(texts))
        requests = (("/api/v1/query", body, self.headers(JSON)) for body in bodies)
        self.post(name, self.place.query_port, requests, pause)

    def evaluate(self, expensive: list[tuple[str, bytes]]) -> None:
        """PromQL requests in turn."""
        requests = ((path, body, self.headers(FORM)) for path, body in itertools.cycle(expensive))
        self.post("PromQL", self.place.query_port, requests, 0.05)

    def storm(self, texts: list[str]) -> None:
        """Each statement once, until it is answered; in the siege itself most get no place beside the worst ones."""
        connection = http.client.HTTPConnection(HOST, self.place.query_port, timeout=ANSWER_SECONDS)
        for text in texts:
            body = json.dumps({"sql": text}).encode("utf-8", "surrogatepass")
            for _attempt in range(STORM_ATTEMPTS):
                try:
                    connection.request("POST", "/api/v1/query", body, self.headers(JSON))
                    response = connection.getresponse()
                    answer = response.read()
                except (OSError, http.client.HTTPException) as error:
                    self.count("attack", type(error).__name__)
                    connection.close()
                    break
                self.count("attack", response.status, answer)
                if response.status not in BUSY:
                    break
                time.sleep(0.5)
        connection.close()

    def ask_and_leave(self, texts: list[str]) -> None:
        """Statements whose answers nobody waits for."""
        for text in itertools.cycle(texts):
            if self.ended.wait(0.2):
                return
            connection = http.client.HTTPConnection(HOST, self.place.query_port, timeout=1.0)
            with suppress(OSError, http.client.HTTPException):
                connection.request("POST", "/api/v1/query", json.dumps({"sql": text}), self.headers(JSON))
                self.ended.wait(1.0)
            connection.close()
            self.count("left query", "left")

    def read_slowly(self) -> None:
        """A large result, a kilobyte at a time."""
        while not self.ended.is_set():
            connection = http.client.HTTPConnection(HOST, self.place.query_port, timeout=ANSWER_SECONDS)
            try:
                connection.request("POST", "/api/v1/query", json.dumps({"sql": statements.LONG}), self.headers(JSON))
                response = connection.getresponse()
                while not self.ended.wait(0.5) and response.read(1024):
                    pass
                self.count("slow result", response.status)
            except (OSError, http.client.HTTPException) as error:
                self.count("slow result", type(error).__name__)
                self.ended.wait(1.0)
            connection.close()

    def call(self, payload: bytes) -> None:
        """Large messages over gRPC."""
        options = [("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(f"{HOST}:{self.place.grpc_port}", options=options) as channel:
            export: Any = channel.unary_unary(GRPC_METHOD, lambda data: data, lambda data: data)
            while not self.ended.wait(0.5):
                try:
                    export(payload, metadata=(("authorization", f"Bearer {self.place.key}"),), timeout=ANSWER_SECONDS)
                    self.count("gRPC", "OK")
                except grpc.RpcError as error:
                    self.count("gRPC", error.code().name)

    def crawl(self) -> None:
        """Clients that send a byte now and then: headers that never end, and bodies that never end."""
        starts = (
            (self.place.http_port, b"POST /v1/logs HTTP/1.1\r\nhost: x\r\nx-slow: "),
            (self.place.query_port, b"POST /api/v1/query HTTP/1.1\r\nhost: x\r\nx-slow: "),
            (self.place.http_port, self._slow_body("/v1/logs", PROTOBUF)),
            (self.place.query_port, self._slow_body("/api/v1/query", JSON)),
        )
        clients: dict[int, socket.socket] = {}
        while not self.ended.wait(SLOW_SECONDS if clients else 0):
            for number in range(self.place.slow_clients):
                try:
                    if number in clients:
                        clients[number].sendall(b"a")
                        continue
                    port, start = starts[number % len(starts)]
                    clients[number] = socket.create_connection((HOST, port), timeout=5)
                    clients[number].sendall(start)
                    self.count("slow client", "opened")
                except OSError:
                    self.count("slow client", "closed")
                    if number in clients:
                        clients.pop(number).close()
        for client in clients.values():
            client.close()

    def _slow_body(self, path: str, kind: str) -> bytes:
        lines = [f"{name}: {value}" for name, value in self.headers(kind).items()]
        return "\r\n".join([f"POST {path} HTTP/1.1", "host: x", "content-length: 1000000", *lines, "", ""]).encode()

    def threads(self) -> list[threading.Thread]:
        """Everything at once; what is sent is built here."""
        worst, walls = statements.worst(), statements.attacks(Path(self.place.folder))
        promql = statements.promql(int(time.time()))
        prepared = self._bombs()
        flood = [self._flood_body(number) for number in range(FLOOD_BODIES)]
        large = messages.logs(HOSTILE, range(5), time.time_ns()).SerializeToString() + wire_field(
            1000, bytes(GRPC_BYTES)
        )
        works: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            *[
                (self.flood, (flood[start:] + flood[:start],))
                for start in range(0, FLOOD_BODIES, FLOOD_BODIES // 3 + 1)
            ],
            *[(self.bombs, (prepared[start:] + prepared[:start],)) for start in (0, len(prepared) // 2)],
            *[(self.call, (large,))] * 2,
            *[(self.ask, ("query", worst[start:] + worst[:start], 0.05)) for start in range(0, len(worst), 8)],
            *[(self.evaluate, (promql[start:] + promql[:start],)) for start in range(0, len(promql), 10)],
            (self.ask, ("attack", walls, 0.02)),
            *[(work, ()) for work in (self.strangers, self.announce, self.read_slowly, self.crawl)],
            (self.ask_and_leave, (worst,)),
        ]
        return [threading.Thread(target=work, args=given, daemon=True) for work, given in works]

    def _flood_body(self, number: int) -> bytes:
        """Records that no other body has: the same ones again would be known, and cost little."""
        numbers = range(number * FLOOD_RECORDS, (number + 1) * FLOOD_RECORDS)
        return gzip.compress(messages.logs(HOSTILE, numbers, time.time_ns()).SerializeToString(), 1)

    def _bombs(self) -> list[tuple[bytes, dict[str, str]]]:
        """All bombs of the fuzzer, also those that need bounds which this version may not have."""
        found = [(gzip.compress(make(), 1), self.headers(PROTOBUF, "gzip")) for make, _needs in bombs.MESSAGES.values()]
        found += [(gzip.compress(make(), 1), self.headers(JSON, "gzip")) for make, _needs in bombs.DOCUMENTS.values()]
        packings = {"gzip": Packing.GZIP, "deflate": Packing.DEFLATE, "zstd": Packing.ZSTD}
        return [*found, *((bombs.packed_zeros(one), self.headers(PROTOBUF, name)) for name, one in packings.items())]


def main() -> None:
    """Attack the place that the first argument describes."""
    attack = Attack(Place(**json.loads(sys.argv[1])))
    threads = attack.threads()
    _yield_processor()
    _say("ready")
    sys.stdin.readline()
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    attack.ended.set()
    for thread in threads:
        thread.join(5.0)
    attack.storm(statements.attacks(Path(attack.place.folder)))
    with attack.lock:
        _say(json.dumps({"answers": dict(attack.answers), "foreign_rows": attack.foreign_rows}))
    os._exit(0)


def _yield_processor() -> None:
    """Run at a low priority: the hostile side stands for other machines, and must not take the processor itself.

    Linux may share the processor among sessions first, and then the niceness of the session counts.
    """
    os.nice(NICENESS)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICENESS), encoding="ascii")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
