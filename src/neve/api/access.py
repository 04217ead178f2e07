"""Access rules that a port checks before keys: the host, the origin, and proxies of a request.

A port without keys trusts every caller, and listens on loopback only. Two kinds of strangers reach loopback all the
same: pages in a browser on this machine, also under a host name that resolves to 127.0.0.1, and callers behind a proxy
on this machine. Both are recognized by their headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from neve.model.settings import is_loopback, parse_host_header
from neve.receive.refusal import Refusal, Verdict
from neve.tls.config import TlsConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    RawHeaders = Sequence[tuple[bytes, bytes]]
    Refuse = Callable[[Refusal, Scope], ASGIApp]
    Elsewhere = Callable[[Request, HTTPException], Response]

LONGEST_SHOWN = 100
LONGEST_HOST = 260  # a name has at most 253 characters, and a port 6
# Kubernetes and load balancers probe by address, and get a one-word response from a port with keys.
PROBES = ("/livez", "/healthz", "/readyz")
PLAIN = TlsConfig()
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
SESSION_COOKIE = b"neve-session="  # behind TLS with the prefix `__Host-`
FORWARDED = frozenset({b"forwarded", b"via", b"x-real-ip"})
FORWARDED_PREFIX = b"x-forwarded-"


@dataclass(frozen=True)
class AccessRules:
    """The rules of one port; `section` is its section of the configuration."""

    section: str
    is_open: bool
    allowed_hosts: Sequence[str] = ()
    origin: str = ""  # of the web page behind a proxy
    tls: TlsConfig = PLAIN

    def check(self, path: str, headers: RawHeaders, method: str = "GET") -> None:
        """Raise `Refusal` for a request that no rule allows; header names are in lower case, as in ASGI."""
        if self.is_open:
            self._check_open(headers)
        elif self.allowed_hosts and path not in PROBES:
            self._check_host(headers)
        if method not in SAFE_METHODS:
            self._check_site(headers)

    def _check_site(self, headers: RawHeaders) -> None:
        """Check a change that a browser sends: it must come from the server's own page.

        A browser is recognized by the header `Sec-Fetch-Site`, which no page can set, or by its cookie.
        """
        found = dict(headers)
        if not self.is_open and (b"authorization" in found or b"x-api-key" in found):
            return  # a program, or a page that was given a key
        site = found.get(b"sec-fetch-site", b"").decode("latin-1").strip().lower()
        if site == "same-origin" or not (site or SESSION_COOKIE in found.get(b"cookie", b"")):
            return
        origin = found.get(b"origin", b"").decode("latin-1")
        own = self.origin or f"{self.tls.scheme}://{_host_header(headers) or ''}"
        if site or origin.strip().lower() != own.strip().lower():
            message = f"changes must come from the page of this server, got {origin[:LONGEST_SHOWN] or site!r}"
            raise Refusal(
                Verdict.FORBIDDEN, "wrong_origin", f"{message}: open the page at its own address ({self._own})"
            )

    @property
    def _own(self) -> str:
        return (
            f"{self.section}.origin is {self.origin}" if self.origin else f"behind a proxy, set {self.section}.origin"
        )

    def check_forwarded(self, names: Iterable[bytes]) -> None:
        """Raise `Refusal` for a request to an open port that came through a proxy, by the names of its headers."""
        if not self.is_open:
            return
        for name in names:
            if name in FORWARDED or name.startswith(FORWARDED_PREFIX):
                shown = _header_text(name)
                message = f"the request came through a proxy ({shown}), and this port requires no API key"
                raise Refusal(Verdict.FORBIDDEN, "proxied", f"{message}: {self._remedy}")

    def _check_open(self, headers: RawHeaders) -> None:
        host = _host_header(headers)
        # A client that verifies our certificate, and has one of its own, was not redirected here by a name server.
        if host is None or not (self.tls.verifies_clients or _is_local(host)):
            shown = _header_text(b", ".join(value for name, value in headers if name == b"host"))
            message = (
                f"the host is {shown!r}, expected localhost or a loopback address on a port that requires no API key"
            )
            raise Refusal(Verdict.MISDIRECTED, "wrong_host", f"{message}: {self._remedy}")
        for name, value in headers:
            if name == b"origin" and not is_own_origin(value.decode("latin-1"), host, self.tls.scheme):
                message = f"pages of {_header_text(value)!r} may not call a port that requires no API key"
                raise Refusal(Verdict.FORBIDDEN, "wrong_origin", f"{message}: {self._remedy}")
        self.check_forwarded(name for name, _value in headers)

    def _check_host(self, headers: RawHeaders) -> None:
        host = _host_header(headers)
        if host is None or not (parse_host_header(host) in self.allowed_hosts or _is_local(host)):
            message = f"the host {(host or '')[:LONGEST_SHOWN]!r} is not allowed ({self.section}.allowed_hosts)"
            raise Refusal(Verdict.MISDIRECTED, "wrong_host", message)

    @property
    def _remedy(self) -> str:
        if self.section == "serve":
            return "send the request from this machine, or set serve.host to another address and send an API key"
        return f"set {self.section}.auth to keys, and create one with `neve keys create`"


def is_own_origin(origin: str, host: str, scheme: str = "http") -> bool:
    """Return whether an origin is that of the server itself, by the host of the request.

    >>> is_own_origin("http://localhost:8480", "localhost:8480"), is_own_origin("null", "localhost:8480")
    (True, False)
    """
    return origin.strip().lower() == f"{scheme}://{host.strip().lower()}"


def build_guarded_application(
    routes: Sequence[BaseRoute],
    rules: AccessRules,
    refuse: Refuse,
    elsewhere: Elsewhere,
) -> Starlette:
    """Build an application with access rules before its routes.

    It never redirects, because a redirect would repeat the caller's `Host`.
    """

    async def not_found(request: Request, error: Exception) -> Response:
        return elsewhere(request, cast("HTTPException", error))

    application = Starlette(
        routes=routes,
        middleware=[Middleware(AccessControl, rules=rules, refuse=refuse)],
        exception_handlers={HTTPException: not_found},
    )
    application.router.redirect_slashes = False
    return application


class AccessControl:
    """Middleware that responds to the requests that the access rules reject."""

    def __init__(self, app: ASGIApp, rules: AccessRules, refuse: Refuse) -> None:
        self._app = app
        self._rules = rules
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or reject it."""
        try:
            if scope["type"] in {"http", "websocket"}:
                self._rules.check(scope["path"], scope["headers"], scope.get("method", "GET"))
        except Refusal as refusal:
            await self._refuse(refusal.strip_traceback(), scope)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _host_header(headers: RawHeaders) -> str | None:
    """Return the host of a request; none if it has none, several, or one that is too long for a name."""
    found = [value for name, value in headers if name == b"host"]
    return found[0].decode("latin-1") if len(found) == 1 and len(found[0]) <= LONGEST_HOST else None


@lru_cache(maxsize=256)
def _is_local(host: str) -> bool:
    """Return whether a `Host` header names this machine; cached, because nearly all requests have the same header."""
    name = parse_host_header(host)
    return name is not None and is_loopback(name.rstrip("."))


def _header_text(value: bytes) -> str:
    return value[:LONGEST_SHOWN].decode("latin-1")
