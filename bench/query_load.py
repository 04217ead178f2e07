"""Thirty-two clients for a minute against a real server: what it answers, what it refuses, and the memory it takes."""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import yaml

from bench.query_data import END, GAUGES, RARE, START
from bench.query_questions import day_view, errors_between, logs_of_trace, p95_between, rare_term, trace_by_id
from bench.sizes import choose_number
from neve.query.config import QueryConfig

if TYPE_CHECKING:
    from bench.query_data import Made
    from bench.report import Report
    from neve.app.settings import Settings

CLIENTS = 32
SECONDS = choose_number("BENCH_LOAD_SECONDS", whole=60, quick=5)
MEMORY_MB = 1_000  # of DuckDB
CACHE_MB = 64  # results that are kept
ALLOWANCE_MB = 600  # Python with its libraries, manifests and the search index that are kept, results on their way
SAMPLE_SECONDS = 0.1
ANSWER_SECONDS = 120
PATH = "/api/v1/query"


@dataclass
class Outcome:
    """What clients were told, and how long whole answers took."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, status: int, seconds: float, words: str) -> None:
        """One answer."""
        with self.lock:
            self.statuses[status] += 1
            if status == HTTPStatus.OK:
                self.seconds.append(seconds)
            elif status != HTTPStatus.TOO_MANY_REQUESTS:
                self.failures.append(f"{status} {words}")


def load(settings: Settings, folder: Path, made: Made, report: Report) -> None:
    """Start a server, let clients ask for a while, and count."""
    config = write_config(settings, folder)
    asked = mix(made)
    with Server(config) as server:
        idle = server.memory_mb()
        outcome, began = Outcome(), time.monotonic()
        with Peak(server) as peak:
            clients = [Client(number, server.address, asked, outcome, began + SECONDS) for number in range(CLIENTS)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
        taken = time.monotonic() - began
    tell(report, outcome, taken, idle, peak.most_mb)


def write_config(settings: Settings, folder: Path) -> Path:
    """The server's configuration: few places, little memory, and no place for one key that others would lack."""
    query = {
        "port": 0,
        "concurrency": 4,
        "key_concurrency": CLIENTS,
        "queue_seconds": 2,
        "memory_limit": f"{MEMORY_MB}MB",
        "cache_bytes": CACHE_MB * 1_000_000,
    }
    QueryConfig.model_validate(query)
    tree = settings.model_dump(include={"organization": True, "lake": {"warehouse"}, "catalog": {"path"}})
    path = folder / "neve.yaml"
    path.write_text(yaml.safe_dump({**tree, "state": {"path": str(folder / "state.db")}, "query": query}))
    return path


def mix(made: Made) -> list[str]:
    """Cheap questions of many kinds, about many traces and times."""
    chance = random.Random(1)
    minutes = [START + timedelta(minutes=chance.randrange(60, 3 * 24 * 60)) for _ in range(100)]
    asked = [trace_by_id(trace) for trace, _began in made.traces]
    asked += [logs_of_trace(trace, began) for trace, began in made.traces]
    asked += [errors_between(minute - timedelta(minutes=5), minute) for minute in minutes]
    asked += [p95_between(END - timedelta(minutes=10 + number), END) for number in range(50)]
    asked += [
        day_view(gauge, START + timedelta(days=day), START + timedelta(days=day + 1))
        for gauge in GAUGES
        for day in range(3)
    ]
    asked += [rare_term(RARE)] * 20
    return asked


class Server:
    """`neve serve --query` in a process of its own."""

    def __init__(self, config: Path) -> None:
        self._config = config

    def __enter__(self) -> Server:
        neve = Path(sys.executable).with_name("neve")
        command = [str(neve), "--config", str(self._config), "serve", "--query", "--query-port", "0", "--json"]
        self._log = (self._config.parent / "server.log").open("w")
        self._process = subprocess.Popen(
            command, cwd=self._config.parent, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self._process.stdout is not None
        self.address = json.loads(self._process.stdout.readline())["query"].removeprefix("http://")
        self._measured = psutil.Process(self._process.pid)
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._log.close()

    def memory_mb(self) -> float:
        """What it and its workers hold now; pages that they share count once for each."""
        total = 0
        for one in (self._measured, *self._measured.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += one.memory_info().rss
        return total / 1e6


class Peak:
    """The most that a server held inside a `with` block."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self.most_mb = 0.0

    def __enter__(self) -> Peak:
        self._watcher.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self.most_mb = max(self.most_mb, self._server.memory_mb())


class Client(threading.Thread):
    """Asks one question after the other, reads each answer to its end, and comes back later when it is told to."""

    def __init__(self, number: int, address: str, asked: list[str], outcome: Outcome, until: float) -> None:
        super().__init__(daemon=True)
        self._chance = random.Random(number)
        self._address = address
        self._asked = asked
        self._outcome = outcome
        self._until = until

    def run(self) -> None:
        """Ask until the time is over."""
        connection = http.client.HTTPConnection(self._address, timeout=ANSWER_SECONDS)
        while time.monotonic() < self._until:
            body = json.dumps({"sql": self._chance.choice(self._asked), "fresh": True})
            began = time.monotonic()
            try:
                connection.request("POST", PATH, body, {"content-type": "application/json"})
                response = connection.getresponse()
                words = response.read()
            except (OSError, http.client.HTTPException) as error:
                self._outcome.add(0, 0, repr(error))
                connection.close()
                continue
            self._outcome.add(response.status, time.monotonic() - began, words[:300].decode(errors="replace"))
            if response.status == HTTPStatus.TOO_MANY_REQUESTS:
                time.sleep(float(response.headers.get("retry-after", "1")))
        connection.close()


def tell(report: Report, outcome: Outcome, taken: float, idle: float, peak: float) -> None:
    """Numbers of the load; nothing but a refusal by the limit may have gone wrong."""
    good, refused = outcome.statuses[HTTPStatus.OK], outcome.statuses[HTTPStatus.TOO_MANY_REQUESTS]
    errors = outcome.statuses.total() - good - refused
    report.ours |= {
        "load_ok": good,
        "load_refused": refused,
        "load_errors": errors,
        "load_qps": good / taken,
        "load_ms": float(np.percentile(outcome.seconds, 50)) * 1e3,
        "load_p95_ms": float(np.percentile(outcome.seconds, 95)) * 1e3,
        "load_idle_mb": idle,
        "load_peak_mb": peak,
        "load_bound_mb": MEMORY_MB + CACHE_MB + ALLOWANCE_MB,
    }
    print(
        f"  load: {good} answers, {refused} refused, {errors} errors in {taken:.0f} s, peak {peak:.0f} MB of "
        f"{report.ours['load_bound_mb']} MB (idle {idle:.0f} MB) {outcome.failures[:3]}",
        flush=True,
    )
    assert not errors, outcome.failures[:3]
    assert peak < report.ours["load_bound_mb"], peak
