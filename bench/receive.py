"""The receiver: spans that were acknowledged, for each CPU second of its process, and its memory as a run gets longer.

A real `neve serve --receiver` gets the exports of four clients in another process, over HTTP and gRPC, plain and
packed. Every acknowledged export was synced to disk first. What the clients use is not counted.
"""

from __future__ import annotations

import gzip
import http.client
import json
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import psutil

from bench.exports import Exports, exports
from bench.report import Report
from bench.sizes import choose
from neve.lake.config import S3Config
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.raw.frame import decode as read_segment
from neve.raw.zone import OTLP, RawZone

CLIENTS = 4
SHORT_SECONDS = choose(4.0, 1.0)
LONG_FACTOR = 10
SAMPLE_SECONDS = 0.1
PATH = "/v1/traces"
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def main() -> None:
    """Each way for a few seconds, then one of them ten times as long."""
    sent = exports(Signal.TRACES)
    report = Report("receive")
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        with _Receiver(Path(folder)) as receiver:
            ways = {"http": _Way("http"), "grpc": _Way("grpc"), "http_gzip": _Way("http", packed=True)}
            receiver.measure(ways["http"], sent, 2)  # warm
            measured = {name: receiver.measure(way, sent, SHORT_SECONDS) for name, way in ways.items()}
            short = receiver.measure(ways["http"], sent, SHORT_SECONDS)
            long = receiver.measure(ways["http"], sent, SHORT_SECONDS * LONG_FACTOR)
        _check_zone(Path(folder), receiver.acknowledged)
    fastest = max(short, long, measured["http"], key=lambda run: run.per_cpu_second)
    report.ours = {
        "spans_per_s": fastest.per_cpu_second,
        "spans_per_export": len(sent.messages) and sent.records / len(sent.messages),
        "acknowledged_exports": receiver.acknowledged,
        "peak_mb": short.peak_mb,
        "peak_mb_10x": long.peak_mb,
        "wall_spans_per_s": long.spans / long.wall_s,
    }
    report.baselines = {
        **{name: {"spans_per_s": run.per_cpu_second, "peak_mb": run.peak_mb} for name, run in measured.items()},
        "decode": {"spans_per_s": _decode_speed(sent)},
    }
    report.ratios = {
        "memory_10x": long.peak_mb / short.peak_mb,
        "vs_decode": fastest.per_cpu_second / report.baselines["decode"]["spans_per_s"],
        "grpc_vs_http": measured["grpc"].per_cpu_second / measured["http"].per_cpu_second,
    }
    report.show()


@dataclass(frozen=True)
class _Way:
    protocol: str
    packed: bool = False


@dataclass(frozen=True)
class _Run:
    spans: int
    cpu_s: float
    wall_s: float
    peak_mb: float

    @property
    def per_cpu_second(self) -> float:
        return self.spans / self.cpu_s


class _Receiver:
    """The process, and what is measured of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.acknowledged = 0

    def __enter__(self) -> _Receiver:
        neve = Path(sys.executable).with_name("neve")
        command = [str(neve), "serve", "--receiver", "--http-port", "0", "--grpc-port", "0", "--json"]
        self._process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._addresses = json.loads(self._process.stdout.readline())
        self._measured = psutil.Process(self._process.pid)
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.terminate()
        self._process.wait(60)

    def measure(self, way: _Way, sent: Exports, seconds: float) -> _Run:
        """Let clients send for a while."""
        address = self._addresses["grpc"] if way.protocol == "grpc" else self._addresses["http"].removeprefix("http://")
        bodies = [gzip.compress(body, 6) for body in sent.messages] if way.packed else list(sent.messages)
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        client = context.Process(target=_clients, args=(way, address, bodies, seconds, queue))
        client.start()
        queue.get()  # it is ready
        peak = _Peak(self._measured)
        cpu, started = _cpu(self._measured), time.monotonic()
        queue.get()  # it is done
        count = queue.get()
        wall, used = time.monotonic() - started, _cpu(self._measured) - cpu
        client.join()
        self.acknowledged += count
        return _Run(int(count * sent.records / len(bodies)), used, wall, peak.end())


class _Peak(threading.Thread):
    """The most memory that a process held."""

    def __init__(self, process: psutil.Process) -> None:
        super().__init__(daemon=True)
        self._process, self._done, self._most = process, threading.Event(), 0
        self.start()

    def run(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self._most = max(self._most, self._process.memory_info().rss)

    def end(self) -> float:
        self._done.set()
        self.join()
        return self._most / 1e6


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _clients(way: _Way, address: str, bodies: list[bytes], seconds: float, queue: multiprocessing.Queue[int]) -> None:
    """Some threads that send one export after the other; each says how many were acknowledged."""
    counts = [0] * CLIENTS
    send = _send_grpc if way.protocol == "grpc" else _send_http
    ready = threading.Barrier(CLIENTS + 1)

    def work(number: int) -> None:
        ready.wait()
        counts[number] = send(address, bodies[number::CLIENTS], time.monotonic() + seconds, packed=way.packed)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    queue.put(0)
    ready.wait()
    for thread in threads:
        thread.join()
    queue.put(0)
    queue.put(sum(counts))


def _send_http(address: str, bodies: list[bytes], until: float, *, packed: bool) -> int:
    host, _, port = address.partition(":")
    connection = http.client.HTTPConnection(host, int(port))
    headers = {"Content-Type": "application/x-protobuf", **({"Content-Encoding": "gzip"} if packed else {})}
    sent = 0
    while time.monotonic() < until:
        connection.request("POST", PATH, bodies[sent % len(bodies)], headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        sent += 1
    return sent


def _send_grpc(address: str, bodies: list[bytes], until: float, *, packed: bool) -> int:
    sent = 0
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(METHOD)
        while time.monotonic() < until:
            call(bodies[sent % len(bodies)])
            sent += 1
    return sent


def _check_zone(folder: Path, acknowledged: int) -> None:
    """Everything that was acknowledged is there."""
    zone = RawZone.of(str(folder / "lake" / "raw"), S3Config(), OTLP)
    zone.recover()
    frames = sum(len(read_segment(zone.read(segment.path)).frames) for segment in zone.segments())
    assert frames >= acknowledged, f"{frames} exports in the raw zone, {acknowledged} were acknowledged"


def _decode_speed(sent: Exports) -> float:
    """What one core decodes, in the same run."""
    intake = Intake("bench", time.time_ns())
    best = 0.0
    for _ in range(2):
        cpu = time.process_time()
        rows = decode(Signal.TRACES, list(sent.messages), intake).batch.num_rows
        best = max(best, rows / (time.process_time() - cpu))
    return best


if __name__ == "__main__":
    main()
