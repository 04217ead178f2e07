"""Live tail over a WebSocket: new lines, limits, errors, tenancy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from neve.api.loki import tail
from neve.api.loki.routes import PREFIX, loki_routes
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports, QueryService, no_limits
from neve.receive.authentication import OpenGuard
from neve.receive.refusal import Refusal, Verdict
from tests.api.querying import Client, serving
from tests.logql.otlp_logs import START, ingest, make_log_lake, message, record
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from websockets.sync.connection import Connection

    from neve.lake.lake import Lake
    from neve.state.scopes import Caller, Scope

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(tmp_path: Path, iceberg: None) -> Lake:
    """A lake to which a test adds lines."""
    return make_log_lake(tmp_path)


@pytest.fixture
def client(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A server for acme that polls often."""
    monkeypatch.setattr(tail, "POLL_SECONDS", 0.05)
    pool = WorkerPool(lake, QueryConfig(threads=1, memory_limit="500MB", warm_workers=1))
    service = QueryService(lake, QueryConfig(cache_bytes=0), limits=no_limits, ports=Ports(engine=pool))
    guard = OpenGuard(ACME)
    with serving(service, guard, first=loki_routes(service, guard)) as found:
        yield found
    pool.close()


def open_tail(client: Client, **parameters: Any) -> Connection:
    """Connect to the live tail."""
    address = f"ws://127.0.0.1:{client.port}{PREFIX}/tail?{urlencode(parameters)}"
    return connect(address, additional_headers={"X-Scope-OrgID": OTHER})


def read_lines(connection: Connection, count: int) -> list[str]:
    """Return the next lines in order of time."""
    found: list[tuple[int, str]] = []
    while len(found) < count:
        frame = json.loads(connection.recv(timeout=60))
        found += [(int(value[0]), value[1]) for stream in frame["streams"] for value in stream["values"]]
    return [line for _, line in sorted(found)]


def test_tail(client: Client, lake: Lake) -> None:
    """A tail begins with the newest lines, and sends those of new commits once, of its organization only."""
    with open_tail(client, query='{service_name="pay"} |= "paid"', start=START, limit=2) as connection:
        assert [line.split()[2] for line in read_lines(connection, 2)] == ["amount=18", "amount=19"]
        ingest(lake, OTHER, message("pay", [record(30, "secret paid")]))
        ingest(lake, ACME, message("pay", [record(31, "paid again"), record(32, "refused")]))
        assert read_lines(connection, 1) == ["paid again"]
        ingest(lake, ACME, message("pay", [record(33, "paid late")]))
        assert read_lines(connection, 1) == ["paid late"]


def test_bad_query(client: Client) -> None:
    """A query that can't be parsed closes the connection with the reason."""
    with open_tail(client, query="{") as connection, pytest.raises(ConnectionClosed) as closed:
        connection.recv(timeout=60)
    assert closed.value.rcvd is not None
    assert "parse error" in closed.value.rcvd.reason


def test_limit(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """More tails than a key may have are refused before the handshake."""
    monkeypatch.setattr(tail, "MAX_TAILS_OF_KEY", 1)
    with open_tail(client, query='{service_name="pay"}', start=START) as first:
        read_lines(first, 1)
        with pytest.raises(InvalidStatus), open_tail(client, query='{service_name="pay"}'):
            pass


class RevocableGuard(OpenGuard):
    """Guard whose only key can be revoked."""

    is_revoked = False

    async def caller(self, _key: str | None, _scope: Scope, _peer: str = "", _certificate: str = "") -> Caller:
        """Return the caller, or refuse it."""
        if self.is_revoked:
            raise Refusal(Verdict.WRONG_KEY, "wrong_key", "the API key is unknown or revoked")
        return await super().caller(_key, _scope, _peer, _certificate)


def test_revoked_key(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tail ends when its key is revoked, before it sends further lines."""
    monkeypatch.setattr(tail, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(tail, "CHECK_SECONDS", 0.0)
    service = QueryService(lake, QueryConfig(cache_bytes=0), limits=no_limits)
    guard = RevocableGuard(ACME)
    with (
        serving(service, guard, first=loki_routes(service, guard)) as client,
        open_tail(client, query='{service_name="pay"}', start=START, limit=1) as connection,
    ):
        read_lines(connection, 1)
        guard.is_revoked = True
        ingest(lake, ACME, message("pay", [record(31, "secret")]))
        with pytest.raises(ConnectionClosed):
            connection.recv(timeout=60)
    service.close()
