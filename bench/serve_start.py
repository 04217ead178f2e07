"""`neve serve` at rest: CPU seconds until its ports are open and until it is ready, idle memory and CPU, time to stop.

Two states are measured: a new lake without data, and the same service after it ingested its first log record, which
needs Spark. Keys of the second begin with `warm_`. Wall time is only used for the stop and the length of idle periods.
Without `/proc/PID/smaps_rollup` (Linux), memory is RSS.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import urllib3

from bench.report import Report
from bench.sizes import choose_number
from bench.usage import read_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IDLE_SECONDS = choose_number("BENCH_IDLE_SECONDS", whole=120, quick=5)
# Commits request jobs that start after two minutes, and Spark ends idle Python workers after another one.
SETTLE_SECONDS = choose_number("BENCH_SETTLE_SECONDS", whole=200, quick=5)
START_SECONDS, STOP_SECONDS = 600.0, 120.0
POLL_SECONDS = 0.1
NEVE = [sys.executable, "-m", "neve"]
LOG = {
    "resourceLogs": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "bench"}}]},
            "scopeLogs": [{"logRecords": [{"timeUnixNano": "0", "body": {"stringValue": "one record"}}]}],
        }
    ]
}


@dataclass(frozen=True)
class Ports:
    """The ports of a service."""

    http: int
    grpc: int
    query: int
    health: int


def main() -> None:
    """Print the numbers of one service, from its start to its stop."""
    report = Report("serve_start")
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        environment = {**os.environ, "NEVE_RAW__MIN_FREE_BYTES": "0"}
        subprocess.run([*NEVE, "init"], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        ports = Ports(*free_ports(4))
        service = _start(Path(folder), ports, environment)
        try:
            _measure(service, ports, report.ours)
        finally:
            _kill(service)
    report.show()


def _measure(service: psutil.Popen, ports: Ports, ours: dict[str, float]) -> None:
    _wait_for_doors(service, ports, ours)
    _wait(service, lambda: _answers(f"http://127.0.0.1:{ports.health}/readyz"))
    ours["ready_cpu_s"] = _tree_cpu(service)
    time.sleep(min(10.0, SETTLE_SECONDS))
    ours |= _idle(service, "")
    before = _tree_cpu(service)
    _send(ports)
    _wait(service, lambda: _count(ports) == 1)
    ours["first_record_cpu_s"] = _tree_cpu(service) - before
    time.sleep(SETTLE_SECONDS)
    ours |= _idle(service, "warm_")
    began = time.monotonic()
    service.send_signal(signal.SIGTERM)
    code = service.wait(STOP_SECONDS)
    ours["stop_s"] = time.monotonic() - began
    if code:
        raise SystemExit(f"the service ended with exit code {code}, expected 0")


def _idle(service: psutil.Popen, prefix: str) -> dict[str, float]:
    """Return the memory and the number of processes, and the CPU of an idle period."""
    began, first, last = time.monotonic(), _cpu_of_each(service), dict[int, float]()
    while time.monotonic() < began + IDLE_SECONDS:
        time.sleep(1.0)
        last |= _cpu_of_each(service)  # of processes that have ended since, the last value counts
    used = sum(cpu - first.get(pid, 0.0) for pid, cpu in last.items())
    percent = 100 * used / (time.monotonic() - began)
    processes = _tree(service)
    for process in processes:
        with suppress(psutil.Error):
            words = " ".join(process.cmdline()[1:])
            print(f"  {read_memory(process) / 1e6:6.0f} MB {_cpu(process):6.1f} CPU s  {process.name()} {words[-90:]}")
    return {
        f"{prefix}idle_mb": sum(map(read_memory, processes)) / 1e6,
        f"{prefix}idle_rss_mb": sum(process.memory_info().rss for process in processes) / 1e6,
        f"{prefix}idle_cpu_pct": percent,
        f"{prefix}processes": len(processes),
    }


def _start(folder: Path, ports: Ports, environment: dict[str, str]) -> psutil.Popen:
    chosen = {
        "NEVE_RECEIVER__HTTP_PORT": ports.http,
        "NEVE_RECEIVER__GRPC_PORT": ports.grpc,
        "NEVE_QUERY__PORT": ports.query,
        "NEVE_SERVE__PORT": ports.health,
    }
    log = (folder / "serve.log").open("wb")
    return psutil.Popen(
        [*NEVE, "serve", "--json"],
        cwd=folder,
        env={**environment, **{name: str(port) for name, port in chosen.items()}},
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def _wait(service: psutil.Popen, is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_done():
        if service.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("the service ended or did not get ready in time")
        time.sleep(POLL_SECONDS)


def _wait_for_doors(service: psutil.Popen, ports: Ports, ours: dict[str, float]) -> None:
    """Measure the CPU of the supervisor and of a process until its ports answer, and of all of them until the last."""
    base = "http://127.0.0.1"
    doors: dict[str, Callable[[], bool]] = {
        "receiver": lambda: _listens(ports.grpc) and _answers(f"{base}:{ports.http}/livez"),
        "api": lambda: _answers(f"{base}:{ports.query}/livez"),
    }

    def look() -> bool:
        for part in [part for part, is_open in doors.items() if is_open()]:
            del doors[part]
            ours[f"{part}_door_cpu_s"] = sum(map(_cpu, _front(service, part)))
        return not doors

    _wait(service, look)
    ours["doors_cpu_s"] = sum(map(_cpu, _front(service, "receiver", "api")))
    # The API's port is open before its query engine is imported; any path but /livez waits for that.
    _wait(service, lambda: _answers(f"{base}:{ports.query}/readyz"))
    ours["api_ready_cpu_s"] = sum(map(_cpu, _front(service, "api")))


def _answers(url: str) -> bool:
    try:
        return urllib3.request("GET", url, retries=False, timeout=10).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _send(ports: Ports) -> None:
    LOG["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["timeUnixNano"] = str(time.time_ns())  # type: ignore[index]
    answer = urllib3.request("POST", f"http://127.0.0.1:{ports.http}/v1/logs", json=LOG, retries=False, timeout=30)
    if answer.status != 200:
        raise SystemExit(f"the receiver answered {answer.status}: {answer.data!r}")


def _count(ports: Ports) -> int:
    url, body = f"http://127.0.0.1:{ports.query}/api/v1/query", {"sql": "SELECT count(*) AS n FROM logs"}
    time.sleep(1)  # each query costs CPU, too
    answer = urllib3.request("POST", url, json=body, retries=False, timeout=60)
    return int(json.loads(answer.data)["rows"][0][0]) if answer.status == 200 else 0


def _front(service: psutil.Popen, *parts: str) -> Iterator[psutil.Process]:
    """Yield the processes of parts, and the one that started them."""
    yield service
    for child in service.children():
        with suppress(psutil.Error):
            if set(parts) & set(child.cmdline()):
                yield child


def _tree(service: psutil.Popen) -> list[Any]:
    return [service, *service.children(recursive=True)]


def _cpu(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def _cpu_of_each(service: psutil.Popen) -> dict[int, float]:
    """Return the CPU seconds of each process, without those of processes that it started."""
    found: dict[int, float] = {}
    for process in _tree(service):
        with suppress(psutil.Error):
            times = process.cpu_times()
            found[process.pid] = float(times.user + times.system)
    return found


def _tree_cpu(service: psutil.Popen) -> float:
    return sum(map(_cpu, _tree(service)))


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody uses now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


def _kill(service: psutil.Popen) -> None:
    for process in [*service.children(recursive=True), service] if service.is_running() else []:
        with suppress(psutil.Error):
            process.kill()


if __name__ == "__main__":
    main()
