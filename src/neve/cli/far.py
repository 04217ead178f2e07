"""A server that answers queries, as its client sees it."""

from __future__ import annotations

import http.client
import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from neve.cli.asking import Answer
from neve.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from neve.query.request import Request

SECONDS = 30  # that a server may take to be reached; how long it takes to answer is the query's own matter
KINDS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


@dataclass(frozen=True)
class Server:
    """A server answers, at an address, for whom the key belongs to."""

    address: str
    key: str | None

    def ask(self, request: Request) -> Answer:
        """The answer to a request, streamed as Arrow."""
        import pyarrow as pa

        response = self._call("POST", "/api/v1/query", _question(request))
        query_id = response.headers.get("Neve-Query-Id", "")
        with self._breaks(query_id):
            stream = pa.ipc.open_stream(response)
        reader = pa.RecordBatchReader.from_batches(stream.schema, self._batches(stream, query_id))
        return Answer(reader, lambda: self._json("GET", f"/api/v1/queries/{query_id}")["statistics"])

    def names(self) -> dict[str, list[str]]:
        """The tables, and the columns of each."""
        tables = self._json("GET", "/api/v1/tables")["tables"]
        return {table["name"]: [column["name"] for column in table["columns"]] for table in tables}

    def status(self) -> Any:
        """How the lake and those who tend it are."""
        return self._json("GET", "/api/v1/status")

    def _batches(self, stream: pa.RecordBatchReader, query_id: str) -> Iterator[pa.RecordBatch]:
        with self._breaks(query_id):
            yield from stream

    @contextmanager
    def _breaks(self, query_id: str) -> Iterator[None]:
        """An answer that ends in the middle: the server knows why."""
        import pyarrow as pa

        try:
            yield
        except (http.client.HTTPException, OSError, pa.ArrowInvalid) as error:
            why = self._reason(query_id)
            hint = None if why else "ask again"
            raise QueryError(f"{self.address} broke off its answer: {why or error}", hint=hint) from error

    def _reason(self, query_id: str) -> str:
        try:
            return str(self._json("GET", f"/api/v1/queries/{query_id}")["error"])
        except (QueryError, KeyError, TypeError):
            return ""

    def _json(self, method: str, path: str) -> Any:
        try:
            return json.loads(self._call(method, path).read())
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise QueryError(f"{self.address} answered {path} with what is no JSON: {error}") from error

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> http.client.HTTPResponse:
        kind, host, port, folder = _place(self.address)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        connection = kind(host, port, timeout=SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(None)
            connection.request(method, folder + path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
        except OSError as error:
            hint = "`neve serve` starts a server"
            raise QueryError(f"can't reach {self.address}: {error.strerror or error}", hint=hint) from error
        except (http.client.HTTPException, ValueError) as error:
            words = f"{type(error).__name__}: {error}"
            raise QueryError(f"can't talk to {self.address}: {words}", hint="check --server and --key") from error
        if response.status >= http.client.BAD_REQUEST:
            raise _refusal(response)
        return response


def _question(request: Request) -> dict[str, Any]:
    time = request.time
    body = {
        "sql": request.sql,
        "parameters": request.parameters,
        "since": time.since.isoformat() if time.since else None,
        "until": time.until.isoformat() if time.until else None,
        "format": "arrow",
        "limit": request.limit,
        "timeout_seconds": request.timeout_seconds,
        "partial": request.partial,
        "fresh": request.fresh,
    }
    return {name: value for name, value in body.items() if value is not None}


def _place(address: str) -> tuple[type[http.client.HTTPConnection], str, int | None, str]:
    """The kind of connection, the host, the port and the folder of an address; raises `QueryError`."""
    try:
        place = urlsplit(address if "://" in address else f"http://{address}")
        kind, host, port = KINDS.get(place.scheme), place.hostname, place.port
    except ValueError as error:
        raise _no_address(address, f": {error}") from error
    if kind is None or not host:
        raise _no_address(address)
    return kind, host, port, place.path.rstrip("/")


def _no_address(address: str, why: str = "") -> QueryError:
    return QueryError(
        f"--server is {address!r}, expected http://HOST:PORT or https://HOST:PORT{why}",
        hint="for example http://127.0.0.1:8480",
    )


def _refusal(response: http.client.HTTPResponse) -> QueryError:
    text = response.read()
    try:
        told = json.loads(text)["error"]
        return QueryError(told["message"], hint=told.get("hint"))
    except (ValueError, KeyError, TypeError):
        return QueryError(f"the server said {response.status}: {text[:200].decode(errors='replace')}")
