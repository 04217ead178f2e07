"""A server on loopback that answers by routes and keeps what it was asked: no forge can be reached from a test."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class Asked:
    """A request: the parts of its path that the route names, its query, its body and its headers."""

    method: str
    path: str
    parts: tuple[str, ...]
    query: Mapping[str, str]
    body: dict[str, Any]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Answer:
    """What is answered: a text as it is, anything else as JSON."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Loopback:
    """Routes on 127.0.0.1; `failures` are answered first, one to a request."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.failures: list[Answer] = []
        self._routes: list[tuple[str, re.Pattern[str], Callable[[Asked], Answer]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def route(self, method: str, pattern: str, answer: Callable[[Asked], Answer]) -> None:
        """Answer requests whose raw path is like the pattern; its groups are unquoted."""
        self._routes.append((method, re.compile(pattern), answer))

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer to one request."""
        split = urlsplit(target)
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        document = json.loads(body) if body else {}
        for known, pattern, answer in self._routes:
            found = pattern.fullmatch(split.path)
            if known == method and found:
                asked = Asked(method, split.path, tuple(map(unquote, found.groups())), query, document, headers)
                self.asked.append(asked)
                return self.failures.pop(0) if self.failures else answer(asked)
        return Answer(404, {"message": f"no route for {method} {split.path}"})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one packet for an answer, or each waits for the other's acknowledgement

            def _reply(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = loopback.answer(self.command, self.path, headers, body)
                sent = answer.body.encode() if isinstance(answer.body, str) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in {**answer.headers, "Content-Length": str(len(sent))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _reply  # noqa: N815 - the names that http.server calls

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        return Handler
