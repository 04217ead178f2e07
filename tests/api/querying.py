"""A server of the query API that really listens, and a client of it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette

from neve.api.ports import listen
from neve.api.query.routes import query_routes
from neve.api.slow_clients import ConnectionLimits, build_protocol
from neve.receive.authentication import OpenGuard
from neve.receive.config import ReceiverConfig
from tests.api.running import HOST, JSON, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from starlette.routing import BaseRoute

    from neve.query.service import QueryService
    from neve.receive.authentication import Guard

QUERY = "/api/v1/query"


@dataclass(frozen=True)
class Client:
    """One who asks, on a connection for each request."""

    port: int

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """One request."""
        with self.sent(method, path, body, headers) as response:
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())

    @contextmanager
    def sent(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """A request whose answer is not read yet; the connection ends with the block."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=600)
        try:
            connection.request(method, path, body, dict(headers or {}))
            yield connection.getresponse()
        finally:
            connection.close()

    def ask(self, sql: str, headers: Mapping[str, str] | None = None, **question: Any) -> Reply:
        """Ask a question."""
        return self.send("POST", QUERY, json.dumps({"sql": sql, **question}).encode(), {**JSON, **(headers or {})})

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        """Look at a path of the API."""
        return self.send("GET", f"/api/v1{path}", headers=headers)


@contextmanager
def serving(
    service: QueryService | Any, guard: Guard | None = None, *, first: Sequence[BaseRoute] = ()
) -> Iterator[Client]:
    """A server in a thread, with the protocol of `neve serve`; `first` are the paths of others."""
    config = ReceiverConfig()
    application = Starlette(routes=[*first, *query_routes(service, guard or OpenGuard("acme"))])
    sock = listen(HOST, 0, "http")
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            http=build_protocol(ConnectionLimits(config, lambda _status, _reason: None)),
            loop="asyncio",
            lifespan="off",
            ws="websockets-sansio",
            log_config=None,
            timeout_graceful_shutdown=5,
        )
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[sock])), daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    try:
        yield Client(sock.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(600)
        assert not thread.is_alive()
