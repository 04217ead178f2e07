"""A loopback server with the endpoints of lakeFS's API v1 that are documented for branches, commits and merges.

It stands in for a real one, which has to be built from source for minutes.
"""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = "lake"
KEYS = ("AKIA-TEST", "secret")
PAGE = 2  # few, so that lists have pages
Files = dict[str, int]


class FakeLakeFS:
    """Commits that hold files with versions, and branches that stand at them."""

    def __init__(self) -> None:
        self.commits: dict[str, Files] = {"c0": {}}
        self.branches: dict[str, str] = {"main": "c0"}
        self.uncommitted: dict[str, Files] = {}
        self.bases: dict[str, str] = {}
        self.url = ""

    def write(self, branch: str, path: str, version: int) -> None:
        """An object through the S3 gateway."""
        self.uncommitted.setdefault(branch, {})[path] = version

    def commit(self, branch: str) -> str | None:
        """Commit what was written; none where that is nothing."""
        written = self.uncommitted.pop(branch, {})
        return self._moved(branch, written) if written else None

    def merge(self, source: str, target: str) -> tuple[int, str]:
        """Merge a branch; a status and what is said."""
        base = self.commits[self.bases[source]]
        theirs, ours = self.commits[self.branches[source]], self.commits[self.branches[target]]
        changed = {path: version for path, version in theirs.items() if base.get(path) != version}
        if not changed:
            return 400, "no changes"
        if any(ours.get(path) != base.get(path) for path in changed):
            return 409, "conflict found"
        return 200, self._moved(target, changed)

    def _moved(self, branch: str, changes: Files) -> str:
        name = f"c{len(self.commits)}"
        self.commits[name] = {**self.commits[self.branches[branch]], **changes}
        self.branches[branch] = name
        return name


def _handler(state: FakeLakeFS) -> type[BaseHTTPRequestHandler]:
    expected = "Basic " + base64.b64encode(":".join(KEYS).encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_words: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            self._route("GET")

        def do_POST(self) -> None:
            self._route("POST")

        def do_DELETE(self) -> None:
            self._route("DELETE")

        def _route(self, method: str) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else {}
            url = urlsplit(self.path)
            parts = [unquote(one) for one in url.path.split("/")[1:]]
            if self.headers.get("Authorization") != expected:
                return self._say(401, {"message": "error authenticating request"})
            if parts[:4] != ["api", "v1", "repositories", REPOSITORY]:
                return self._say(404, {"message": "repository not found"})
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            return self._say(*_answer(state, (method, *parts[4:]), body, query))

        def _say(self, status: int, document: Any) -> None:
            data = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


def _answer(state: FakeLakeFS, asked: tuple[str, ...], body: Any, query: dict[str, str]) -> tuple[int, Any]:
    match asked:
        case ("GET", "branches"):
            return 200, _page(state, query)
        case ("POST", "branches"):
            return _created(state, body)
    return _about_branch(state, asked)


def _about_branch(state: FakeLakeFS, asked: tuple[str, ...]) -> tuple[int, Any]:
    match asked:
        case ("GET", "branches", name) if name in state.branches:
            return 200, {"id": name, "commit_id": state.branches[name]}
        case ("DELETE", "branches", name) if name in state.branches:
            del state.branches[name]
            return 204, None
        case ("POST", "branches", name, "commits") if name in state.branches:
            commit = state.commit(name)
            return (201, {"id": commit}) if commit else (400, {"message": "commit: no changes"})
        case ("POST", "refs", source, "merge", target):
            status, said = state.merge(source, target)
            return status, {"reference": said} if status == 200 else {"message": said}
    return 404, {"message": "not found"}


def _created(state: FakeLakeFS, body: Any) -> tuple[int, Any]:
    if body["name"] in state.branches:
        return 409, {"message": "branch already exists"}
    commit = state.branches.get(body["source"], body["source"])
    if commit not in state.commits:
        return 404, {"message": "source not found"}
    state.branches[body["name"]] = state.bases[body["name"]] = commit
    return 201, commit


def _page(state: FakeLakeFS, query: dict[str, str]) -> Any:
    names = [
        name
        for name in sorted(state.branches)
        if name.startswith(query.get("prefix", "")) and name > query.get("after", "")
    ]
    shown = names[:PAGE]
    return {
        "pagination": {"has_more": len(names) > PAGE, "next_offset": shown[-1] if shown else ""},
        "results": [{"id": name, "commit_id": state.branches[name]} for name in shown],
    }


@contextmanager
def lakefs() -> Iterator[FakeLakeFS]:
    """Run an empty repository."""
    state = FakeLakeFS()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
