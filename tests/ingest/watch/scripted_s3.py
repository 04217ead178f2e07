"""An object store that answers as the name of a bucket says: for faults that a real one shows only now and then."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from neve.lake.config import S3Config

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"
MODIFIED = "Wed, 12 Oct 2022 17:50:00 GMT"
ARCHIVED = (
    b"<?xml version='1.0'?><Error><Code>InvalidObjectState</Code>"
    b"<Message>The operation is not valid for the object's storage class</Message></Error>"
)
STATUSES = {"elsewhere": 301, "badly-named": 400, "denied": 403, "broken": 500}


@dataclass
class ScriptedStore:
    """Objects by bucket and key. A bucket of `STATUSES` answers so; one that is `away` answers nothing."""

    port: int
    objects: dict[str, bytes] = field(default_factory=dict)
    archived: set[str] = field(default_factory=set)
    away: set[str] = field(default_factory=set)
    heads: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def config(self) -> S3Config:
        """How to reach it."""
        return S3Config.model_validate({"endpoint": f"http://{HOST}:{self.port}", "access_key": "a", "secret_key": "b"})


class Handler(BaseHTTPRequestHandler):
    """Answers from the script of its server."""

    protocol_version = "HTTP/1.1"

    @property
    def store(self) -> ScriptedStore:
        """The script."""
        store: ScriptedStore = self.server.store  # type: ignore[attr-defined]
        return store

    @property
    def key(self) -> str:
        """Bucket and key."""
        return self.path.partition("?")[0].strip("/")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Look at an object."""
        store = self.store
        with store.lock:
            store.heads.append(self.key)
            store.at_once += 1
            store.most_at_once = max(store.most_at_once, store.at_once)
        try:
            self._answer()
        finally:
            with store.lock:
                store.at_once -= 1

    def do_GET(self) -> None:
        """Read an object."""
        if self.key in self.store.archived:
            self._reply(403, ARCHIVED)
        else:
            self._answer()

    def _answer(self) -> None:
        bucket = self.key.partition("/")[0]
        if bucket in self.store.away:
            self.close_connection = True
        elif bucket in STATUSES:
            self._reply(STATUSES[bucket], b"")
        elif self.key in self.store.objects:
            self._reply(200, self.store.objects[self.key])
        else:
            self._reply(404, b"")

    def _reply(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.send_header("last-modified", MODIFIED)
        self.send_header("content-type", "application/xml" if status == 403 else "application/octet-stream")
        if status == 301:
            self.send_header("x-amz-bucket-region", "eu-west-9")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)


@contextmanager
def scripted_store() -> Iterator[ScriptedStore]:
    """Run a store on a free port of this machine."""
    server = ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = True
    store = server.store = ScriptedStore(server.server_port)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
