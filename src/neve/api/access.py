"""Requests that a port refuses before it looks at keys: by their host, their origin, and the proxies they came through.

A port without keys trusts whoever reaches it, and listens on loopback only. Two kinds of strangers reach loopback all
the same: pages in a browser on this machine, also under a host name that resolves to 127.0.0.1 for them, and callers
behind a proxy on this machine. Both give themselves away by their headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from neve.model.network import host_name, is_loopback
from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send

    Refuse = Callable[[Refusal, Scope], ASGIApp]
    Elsewhere = Callable[[Request, HTTPException], Response]

LONGEST_SHOWN = 100
PROBES = ("/livez", "/healthz", "/readyz")
# Kubernetes and load balancers probe by address, and get one word from a port with keys.
FORWARDED = ("forwarded", "via", "x-real-ip")
FORWARDED_PREFIX = "x-forwarded-"

Headers = dict[str, list[str]]


@dataclass(frozen=True)
class AccessRules:
    """The rules of one port; `section` is its section of the configuration."""

    section: str
    is_open: bool
    allowed_hosts: Sequence[str] = ()

    @property
    def apply(self) -> bool:
        """Whether there is anything to check."""
        return self.is_open or bool(self.allowed_hosts)

    def check(self, path: str, headers: Headers) -> None:
        """Raise `Refusal` for a request that no rule allows."""
        if self.is_open:
            self._check_open(headers)
        elif self.allowed_hosts and path not in PROBES:
            self._check_host(headers)

    def check_forwarded(self, names: Iterable[str]) -> None:
        """Raise `Refusal` for a request to an open port that came through a proxy, by the names of its headers."""
        passed_on = next((name for name in names if _tells_of_proxy(name)), None)
        if self.is_open and passed_on:
            message = f"the request came through a proxy ({passed_on[:LONGEST_SHOWN]}), and this port asks for no keys"
            raise Refusal(Verdict.FORBIDDEN, "proxied", f"{message}: {self._remedy}")

    def _check_open(self, headers: Headers) -> None:
        hosts = headers.get("host", [])
        name = host_name(hosts[0]) if len(hosts) == 1 else None
        if name is None or not is_loopback(name.rstrip(".")):
            shown = ", ".join(hosts)[:LONGEST_SHOWN]
            message = f"the host is {shown!r}, expected localhost or a loopback address on a port that asks for no keys"
            raise Refusal(Verdict.MISDIRECTED, "wrong_host", f"{message}: {self._remedy}")
        for origin in headers.get("origin", []):
            if not is_own_origin(origin, hosts[0]):
                message = f"pages of {origin[:LONGEST_SHOWN]!r} may not call a port that asks for no keys"
                raise Refusal(Verdict.FORBIDDEN, "wrong_origin", f"{message}: {self._remedy}")
        self.check_forwarded(headers)

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.get("host", [])
        name = host_name(hosts[0]) if len(hosts) == 1 else None
        if name is None or not (name in self.allowed_hosts or is_loopback(name)):
            shown = ", ".join(hosts)[:LONGEST_SHOWN]
            message = f"the host {shown!r} is not served here ({self.section}.allowed_hosts)"
            raise Refusal(Verdict.MISDIRECTED, "wrong_host", message)

    @property
    def _remedy(self) -> str:
        if self.section == "serve":
            return "ask on the machine itself, or set serve.host to another address and send a key"
        return f"set {self.section}.auth to keys, and create one with `neve keys create`"


def is_own_origin(origin: str, host: str) -> bool:
    """Whether an origin is that of the server itself, by the host that the request names.

    >>> is_own_origin("http://localhost:8480", "localhost:8480"), is_own_origin("null", "localhost:8480")
    (True, False)
    """
    return origin.strip().lower() == f"http://{host.strip().lower()}"


def guarded_application(
    routes: Sequence[Route],
    rules: AccessRules,
    refuse: Refuse,
    elsewhere: Elsewhere,
) -> Starlette:
    """An application with rules before its routes; it never redirects, which would repeat the caller's `Host`."""

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
    """Middleware that answers for an application what its rules refuse."""

    def __init__(self, app: ASGIApp, rules: AccessRules, refuse: Refuse) -> None:
        self._app = app
        self._rules = rules
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        try:
            if scope["type"] == "http" and self._rules.apply:
                self._rules.check(scope["path"], _headers(scope))
        except Refusal as refusal:
            await self._refuse(refusal.detached(), scope)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _headers(scope: Scope) -> Headers:
    found: Headers = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _tells_of_proxy(name: str) -> bool:
    lower = name.lower()
    return lower in FORWARDED or lower.startswith(FORWARDED_PREFIX)
