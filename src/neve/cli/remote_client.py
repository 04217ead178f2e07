"""HTTP client of the query API: queries as Arrow streams, table names, status."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from urllib3.exceptions import HTTPError

from neve.cli.querying.query_target import Answer
from neve.errors import QueryError
from neve.http_client import HttpClient, NoReply, ServerUntrusted, close_response
from neve.query.request import UTC_ZONE
from neve.tls.config import ClientTlsConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from urllib3 import BaseHTTPResponse

    from neve.query.request import Request

CONNECT_SECONDS = 30.0  # to connect to a server; the timeout of the query limits the answer
NO_CERTIFICATES = ClientTlsConfig()
UNTRUSTED_HINT = "set client.ca_file, and client.certificate and client.key if the server requires a certificate"
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024  # bytes of a JSON document; rows have no limit


@dataclass(frozen=True)
class RemoteClient:
    """A server at an address, with a key that identifies the organization."""

    address: str
    key: str | None
    tls: ClientTlsConfig = NO_CERTIFICATES

    def ask(self, request: Request) -> Answer:
        """Return the answer to a request, streamed as Arrow."""
        import pyarrow as pa

        response = self._call("POST", "/api/v1/query", _request_body(request))
        query_id = response.headers.get("Neve-Query-Id", "")
        with self._breaks(query_id):
            stream = pa.ipc.open_stream(response)
        reader = pa.RecordBatchReader.from_batches(stream.schema, self._batches(stream, query_id))
        return Answer(reader, lambda: self._json("GET", f"/api/v1/queries/{query_id}")["statistics"])

    def names(self) -> dict[str, list[str]]:
        """Return the tables, and the columns of each."""
        tables = self._json("GET", "/api/v1/tables")["tables"]
        return {table["name"]: [column["name"] for column in table["columns"]] for table in tables}

    def status(self) -> Any:
        """Return service health, queues, running jobs and lag."""
        return self._json("GET", "/api/v1/status")

    def get(self, path: str) -> Any:
        """Return the document of a path."""
        return self._json("GET", path)

    def _batches(self, stream: pa.RecordBatchReader, query_id: str) -> Iterator[pa.RecordBatch]:
        with self._breaks(query_id):
            yield from stream

    @contextmanager
    def _breaks(self, query_id: str) -> Iterator[None]:
        """Raise `QueryError` for a truncated answer, with the reason that the server reports."""
        import pyarrow as pa

        try:
            yield
        except (HTTPError, OSError, pa.ArrowInvalid) as error:
            why = self._reason(query_id)
            hint = None if why else "retry"
            raise QueryError(
                f"{self.address} closed the connection during the response: {why or error}", hint=hint
            ) from error

    def _reason(self, query_id: str) -> str:
        try:
            return str(self._json("GET", f"/api/v1/queries/{query_id}")["error"])
        except (QueryError, KeyError, TypeError):
            return ""

    def _json(self, method: str, path: str) -> Any:
        response = self._call(method, path)
        try:
            return json.loads(_read_document(response))
        except (HTTPError, OSError, ValueError) as error:
            raise QueryError(f"{self.address} answered {path} with invalid JSON: {error}") from error

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> BaseHTTPResponse:
        base = _parse_address(self.address)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        sent = json.dumps(body).encode() if body else None
        client = HttpClient(
            timeout_seconds=CONNECT_SECONDS,
            max_reply_bytes=MAX_DOCUMENT_BYTES,
            ca_file=self.tls.ca_file,
            client_certificate=self.tls.certificate,
            client_key=self.tls.key,
        )
        try:
            response = client.open(
                method, base + path, sent, headers, connect_seconds=CONNECT_SECONDS, read_seconds=None
            )
        except ServerUntrusted as error:
            raise QueryError(f"can't reach {self.address}: {error}", hint=UNTRUSTED_HINT) from error
        except NoReply as error:
            hint = "check --server and --key" if error.is_sent else "`neve serve` starts a server"
            raise QueryError(f"can't reach {self.address}: {error}", hint=hint) from error
        except ValueError as error:  # a key or a path that can't be in a request
            raise QueryError(f"can't connect to {self.address}: {error}", hint="check --server and --key") from error
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise _response_error(response)
        return response


def _read_document(response: BaseHTTPResponse) -> bytes:
    try:
        return response.read(MAX_DOCUMENT_BYTES)
    finally:
        close_response(response)


def _request_body(request: Request) -> dict[str, Any]:
    time = request.time
    body = {
        "sql": request.sql,
        "parameters": request.parameters,
        "since": time.since.isoformat() if time.since else None,
        "until": time.until.isoformat() if time.until else None,
        "format": "arrow",
        "limit": request.limit,
        "timeout_seconds": request.timeout_seconds,
        **({"timezone": request.time_zone} if request.time_zone != UTC_ZONE else {}),
        "partial": request.partial,
        "fresh": request.fresh,
    }
    return {name: value for name, value in body.items() if value is not None}


def _parse_address(address: str) -> str:
    """Return the URL below which the API is; raises `QueryError`."""
    try:
        place = urlsplit(address if "://" in address else f"http://{address}")
        host, _port = place.hostname, place.port
    except ValueError as error:
        raise _address_error(address, f": {error}") from error
    if place.scheme not in ("http", "https") or not host:
        raise _address_error(address)
    return f"{place.scheme}://{place.netloc.rpartition('@')[2]}{place.path.rstrip('/')}"


def _address_error(address: str, why: str = "") -> QueryError:
    return QueryError(
        f"--server is {address!r}, expected http://HOST:PORT or https://HOST:PORT{why}",
        hint="for example http://127.0.0.1:8480",
    )


def _response_error(response: BaseHTTPResponse) -> QueryError:
    text = _read_document(response)
    try:
        failure = json.loads(text)["error"]
        return QueryError(failure["message"], hint=failure.get("hint"))
    except (ValueError, KeyError, TypeError):
        return QueryError(f"the server responded with {response.status}: {text[:200].decode(errors='replace')}")
