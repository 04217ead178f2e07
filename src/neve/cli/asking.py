"""Whom a query is asked of: this process, or a server."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from neve.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from neve.query.request import Request
    from neve.query.service import QueryService

SECONDS = 30  # that a server may take to be reached; how long it takes to answer is the query's own matter


@dataclass(frozen=True)
class Answer:
    """A result as it comes, and what it took, once it was read."""

    reader: pa.RecordBatchReader
    statistics: Callable[[], dict[str, Any]]


class Asked(Protocol):
    """Who answers."""

    def ask(self, request: Request) -> Answer:
        """The answer to a request; raises `QueryError`."""

    def names(self) -> dict[str, list[str]]:
        """The tables, and the columns of each."""


@dataclass(frozen=True)
class Here:
    """Answers in this process."""

    service: QueryService

    def ask(self, request: Request) -> Answer:
        """The answer to a request."""
        import pyarrow as pa

        running = self.service.start(request)
        reader = pa.RecordBatchReader.from_batches(running.schema, running.batches())
        return Answer(reader, running.took)

    def names(self) -> dict[str, list[str]]:
        """The tables, and the columns of each."""
        return {name: schema.names for name, schema in self.service.schemas().items()}


@dataclass(frozen=True)
class Server:
    """A server answers, at an address, for whom the key belongs to."""

    address: str
    key: str | None

    def ask(self, request: Request) -> Answer:
        """The answer to a request, streamed as Arrow."""
        import pyarrow as pa

        body = {
            "sql": request.sql,
            "parameters": request.parameters,
            "since": request.time.since.isoformat() if request.time.since else None,
            "until": request.time.until.isoformat() if request.time.until else None,
            "format": "arrow",
            "limit": request.limit,
            "timeout_seconds": request.timeout_seconds,
            "partial": request.partial,
            "fresh": request.fresh,
        }
        given = {name: value for name, value in body.items() if value is not None}
        response = self._call("POST", "/api/v1/query", given)
        query_id = response.headers["Neve-Query-Id"]
        try:
            stream = pa.ipc.open_stream(response)
        except pa.ArrowInvalid as error:
            raise QueryError(f"{self.address} broke off its answer: {error}", hint="ask again") from error
        return Answer(stream, lambda: self._json("GET", f"/api/v1/queries/{query_id}")["statistics"])

    def names(self) -> dict[str, list[str]]:
        """The tables, and the columns of each."""
        tables = self._json("GET", "/api/v1/tables")["tables"]
        return {table["name"]: [column["name"] for column in table["columns"]] for table in tables}

    def _json(self, method: str, path: str) -> Any:
        return json.loads(self._call(method, path).read())

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> http.client.HTTPResponse:
        place = urlsplit(self.address if "://" in self.address else f"http://{self.address}")
        kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        connection = kind(place.hostname or "", place.port, timeout=SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(None)
            connection.request(method, place.path.rstrip("/") + path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
        except OSError as error:
            raise QueryError(
                f"can't reach {self.address}: {error.strerror or error}", hint="`neve serve` starts a server"
            ) from error
        if response.status >= http.client.BAD_REQUEST:
            raise _refusal(response)
        return response


def _refusal(response: http.client.HTTPResponse) -> QueryError:
    text = response.read()
    try:
        told = json.loads(text)["error"]
        return QueryError(told["message"], hint=told.get("hint"))
    except (ValueError, KeyError, TypeError):
        return QueryError(f"the server said {response.status}: {text[:200].decode(errors='replace')}")
