"""The files of the web page, and the headers that every response of its port has.

`make setup` builds the page into the folder `neve/page` of the package, and a wheel contains it. Files with a hash in
their name never change. Any other address gives the page itself, which reads the screen from its address.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse, Response

import neve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

FOLDER = Path(neve.__file__).parent / "page"
INDEX = "index.html"
ASSETS = "assets/"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Addresses of programs: a browser that opens an unknown one gets the error of the API, not the page.
PROGRAM_PATHS = ("/api/", "/prometheus/", "/assets/", "/metrics", "/livez", "/healthz", "/readyz")
IMMUTABLE = "public, max-age=31536000, immutable"
REVALIDATED = "no-cache"
NOT_BUILT = """\
The web page is not part of this installation. The API works: /api/v1/openapi.json describes it.

In a clone of the repository, `make setup` builds the page. A wheel contains it.
"""
# Scripts and styles are files of this origin, and nothing is inline. Svelte creates its templates under one policy.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types svelte-trusted-html",
    )
)
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@dataclass(frozen=True)
class PageFile:
    """One file in memory, and its gzip form if that is smaller."""

    content: bytes
    media_type: str
    cache_control: str
    compressed: bytes | None = field(default=None, repr=False)

    def respond(self, request: Request) -> Response:
        """Return the file, compressed for a client that accepts it."""
        headers = {"cache-control": self.cache_control, "vary": "accept-encoding"}
        if self.compressed is None or "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.content, headers=headers, media_type=self.media_type)
        headers["content-encoding"] = "gzip"
        return Response(self.compressed, headers=headers, media_type=self.media_type)


@dataclass(frozen=True)
class PageFiles:
    """The files of the page by their paths; none if it was not built."""

    files: Mapping[str, PageFile]

    @classmethod
    def load(cls) -> PageFiles:
        """Read all files; they are small, and none can be reached that is not among them."""
        folder = FOLDER
        if not (folder / INDEX).is_file():
            return cls({})
        paths = sorted(path for path in folder.rglob("*") if path.suffix in MEDIA_TYPES)
        return cls({f"/{path.relative_to(folder).as_posix()}": _read_file(path, folder) for path in paths})

    def respond(self, request: Request) -> Response | None:
        """Return a file or the page for a request that no route serves; none if it is not for the page."""
        path = request.url.path
        if request.method not in ("GET", "HEAD"):
            return None
        if path in self.files and path != f"/{INDEX}":
            return self.files[path].respond(request)
        if path.startswith(PROGRAM_PATHS) or (path != "/" and "text/html" not in request.headers.get("accept", "")):
            return None
        if not self.files:
            return PlainTextResponse(NOT_BUILT, status_code=404, headers={"cache-control": REVALIDATED})
        return self.files[f"/{INDEX}"].respond(request)


def _read_file(path: Path, folder: Path) -> PageFile:
    content = path.read_bytes()
    compressed = gzip.compress(content, mtime=0)
    is_hashed = path.relative_to(folder).as_posix().startswith(ASSETS)
    return PageFile(
        content,
        MEDIA_TYPES[path.suffix],
        IMMUTABLE if is_hashed else REVALIDATED,
        compressed if len(compressed) < len(content) else None,
    )


class SecurityHeaders:
    """Middleware that adds the security headers to every response of the port, also to errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
