"""Hostile expressions cost only themselves: each ends within the limits of its worker, and others are answered."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from neve.api.prometheus.routes import PREFIX, prometheus_routes
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports, QueryService
from neve.receive.authentication import OpenGuard
from tests.api.querying import Client, serving
from tests.api.running import HOST
from tests.promql.hostile_requests import SLOW, hostile_requests, range_before
from tests.promql.storage.otlp_metrics import COUNT, GAP_MS, START_MS, make_metric_lake
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.lake.lake import Lake

pytestmark = pytest.mark.slow

END = (START_MS + (COUNT - 1) * GAP_MS) // 1000
CPU_SECONDS = 3.0
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The lake with metrics of all types."""
    return make_metric_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def pool(lake: Lake) -> Iterator[WorkerPool]:
    """Workers with little memory and CPU time."""
    made = WorkerPool(
        lake, QueryConfig(threads=1, memory_limit="300MB", warm_workers=1, cpu_seconds=CPU_SECONDS, cache_bytes=0)
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def service(lake: Lake, pool: WorkerPool) -> QueryService:
    """The service with these workers."""
    return QueryService(lake, pool.config, ports=Ports(engine=pool))


@pytest.fixture(scope="module")
def client(service: QueryService) -> Iterator[Client]:
    """A client of acme."""
    guard = OpenGuard(ACME)
    with serving(service, guard, first=prometheus_routes(service, guard)) as found:
        yield found


def post(client: Client, path: str, **parameters: Any) -> tuple[int, dict[str, Any]]:
    """Return status and document of a POST."""
    reply = client.send("POST", f"{PREFIX}{path}", urlencode(parameters, doseq=True).encode(), FORM)
    return reply.status, json.loads(reply.body)


def check_honest(client: Client) -> None:
    """An honest query is answered."""
    status, document = post(client, "/query", query="sum(memory_bytes)", time=END)
    assert (status, document["data"]["result"]) == (200, [{"metric": {}, "value": [END, "20"]}])


RANGE = range_before(END)
HOSTILE = hostile_requests(END)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(client: Client, name: str) -> None:
    """It is answered or rejected in Prometheus' envelope. The server works little, and answers the next query."""
    path, parameters = HOSTILE[name]
    before = time.process_time()
    status, document = post(client, path, **{"time": END, **parameters})
    used = time.process_time() - before
    assert status in {200, 400, 413, 422, 503}
    assert status == 413 or document["status"] in {"success", "error"}
    assert used < CPU_SECONDS  # this process has the server, the client and the test
    check_honest(client)


def test_processor(client: Client) -> None:
    """An expression that takes minutes ends with the CPU limit of its worker."""
    status, document = post(client, "/query_range", query=SLOW, **RANGE)
    assert (status, document["errorType"]) == (422, "execution")
    assert "more than 3 seconds of the processor" in document["error"]


def test_timeout(client: Client) -> None:
    """A timeout ends an evaluation, with Prometheus' status."""
    status, document = post(client, "/query_range", query=SLOW, timeout="300ms", **RANGE)
    assert (status, document["errorType"]) == (503, "timeout")


def test_crash(service: QueryService, client: Client, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that dies is one failed query."""
    taken: list[Any] = []
    take = WorkerPool.take

    def record(self: WorkerPool, work: Any) -> Any:
        taken.append(take(self, work))
        return taken[-1]

    monkeypatch.setattr(WorkerPool, "take", record)
    found: list[tuple[int, dict[str, Any]]] = []
    thread = threading.Thread(target=lambda: found.append(post(client, "/query_range", query=SLOW, **RANGE)))
    thread.start()
    while not taken:
        time.sleep(0.001)
    os.kill(taken[0].process.pid, signal.SIGSEGV)
    thread.join()
    [(status, document)] = found
    assert (status, document["errorType"]) == (422, "execution")
    assert "the engine failed on this statement (SIGSEGV)" in document["error"]
    check_honest(client)


def test_cancel(service: QueryService, client: Client) -> None:
    """A cancelled query has Prometheus' error, and a client that disconnects cancels its query."""
    found: list[tuple[int, dict[str, Any]]] = []
    thread = threading.Thread(target=lambda: found.append(post(client, "/query_range", query=SLOW, **RANGE)))
    thread.start()
    while not (running := service.running(ACME)):
        time.sleep(0.001)
    assert running[0].sql == SLOW
    running[0].cancel()
    thread.join()
    assert [(status, document["errorType"]) for status, document in found] == [(503, "canceled")]
    body = urlencode({"query": SLOW, **RANGE}).encode()
    connection = http.client.HTTPConnection(HOST, client.port)
    connection.request("POST", f"{PREFIX}/query_range", body, FORM)
    while not (running := service.running(ACME)):
        time.sleep(0.001)
    connection.close()
    while running[0].state == "running":
        time.sleep(0.001)
    assert running[0].state == "cancelled"


def test_places(lake: Lake, service: QueryService, client: Client) -> None:
    """While one organization's queries occupy all its places, another one is answered."""
    threads = [
        threading.Thread(target=lambda: post(client, "/query_range", query=SLOW, timeout="2s", **RANGE))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    while not service.running(ACME):
        time.sleep(0.001)
    guard = OpenGuard(OTHER)
    with serving(service, guard, first=prometheus_routes(service, guard)) as other:
        status, document = post(other, "/query", query="secret", time=END)
    assert (status, [one["value"][1] for one in document["data"]["result"]]) == (200, ["1"])
    for thread in threads:
        thread.join()


def test_unexpected_error(tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a program is an internal error, without its text."""
    monkeypatch.setattr("neve.api.prometheus.routes.FUNCTION", "neve.promql.http.program:missing")
    status, document = post(client, "/query", query="1")
    assert (status, document["errorType"], document["error"]) == (500, "internal", "the server failed; see its log")
