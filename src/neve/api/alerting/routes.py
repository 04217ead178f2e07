"""Routes of rules and alerts. They read the status that the evaluating process stores, of the caller's organization."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.routing import Route

from neve import __version__
from neve.api.access import LONGEST_SHOWN, is_own_origin
from neve.api.alerting.alert_documents import (
    MAX_FILTERS,
    AlertFilter,
    InvalidFilter,
    list_alerts,
    list_groups,
    parse_matcher,
)
from neve.api.alerting.rule_documents import RuleFilter, describe_alerts, describe_groups
from neve.api.control.changes import record_change
from neve.api.prometheus.envelope import error_response, success_response
from neve.api.prometheus.routes import PREFIX as PROMETHEUS
from neve.api.query.endpoint import Endpoint, read_body, read_form
from neve.api.query.errors import Failure, json_response, to_failure
from neve.api.query.models import parse_json
from neve.errors import QueryError
from neve.lake.calendar import now_utc
from neve.lexical.matchers import RegexError, validate_regex
from neve.promql.http.parameters import Parameters
from neve.rules.notify.outgoing_alert import format_rfc3339
from neve.rules.notify.silences import InvalidSilence, Silences
from neve.rules.status import RuleStatuses
from neve.state.audit import AuditLog
from neve.state.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from neve.api.query.endpoint import Handler
    from neve.receive.authentication import Guard
    from neve.rules.config import NotifierConfig
    from neve.state.documents import Documents
    from neve.state.scopes import Caller

__all__ = ["ALERTMANAGER", "AlertingEndpoints", "alerting_routes"]

ALERTMANAGER = "/alertmanager/api/v2"
THREADS = 4
WORDS = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
VERSION = {
    "version": "0.28.0",
    "revision": f"neve-{__version__}",
    "branch": "",
    "buildUser": "",
    "buildDate": "",
    "goVersion": "",
}
Result = TypeVar("Result")


def now_ms() -> int:
    """Return the time in milliseconds."""
    return round(now_utc().timestamp() * 1000)


@dataclass(frozen=True)
class AlertingEndpoints:
    """Handlers. Blocking calls to the state store run in threads of their own."""

    documents: Documents
    destinations: Sequence[NotifierConfig] = ()
    started_ms: int = field(default_factory=now_ms)
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(THREADS))

    async def rules(self, request: Request, caller: Caller) -> ASGIApp:
        """List groups of rules, as Prometheus does."""
        pairs = await read_form(request)

        def find() -> dict[str, Any]:
            wanted = _read_rule_filter(Parameters(pairs, 0), pairs)
            return describe_groups(RuleStatuses(self.documents).of(caller.organization), wanted)

        try:
            return success_response(await self._run(find))
        except QueryError as error:
            return error_response(error, to_failure(error))

    async def prometheus_alerts(self, _request: Request, caller: Caller) -> ASGIApp:
        """List pending and firing alerts, as Prometheus does."""
        groups = await self._run(lambda: RuleStatuses(self.documents).of(caller.organization))
        return success_response(describe_alerts(groups))

    async def status(self, _request: Request, _caller: Caller) -> Response:
        """Report a version. Grafana checks that there is a status."""
        return json_response({
            "cluster": {"name": "", "status": "disabled", "peers": []},
            "versionInfo": VERSION,
            "config": {"original": ""},
            "uptime": format_rfc3339(self.started_ms),
        })  # fmt: skip

    async def receivers(self, _request: Request, caller: Caller) -> Response:
        """List the destinations of the organization's alerts."""
        return json_response([{"name": name} for name in self._receivers(caller.organization)])

    async def alerts(self, request: Request, caller: Caller) -> Response:
        """List firing alerts."""
        pairs = await read_form(request)
        return json_response(await self._run(lambda: self._list_alerts(caller.organization, pairs)))

    async def groups(self, request: Request, caller: Caller) -> Response:
        """List firing alerts by name."""
        pairs = await read_form(request)
        found = await self._run(lambda: self._list_alerts(caller.organization, pairs))
        return json_response(list_groups(found, self._receivers(caller.organization)))

    async def silences(self, request: Request, caller: Caller) -> Response:
        """List silences."""
        pairs = await read_form(request)

        def find() -> list[dict[str, Any]]:
            matchers, found = _read_matchers(pairs), Silences(self.documents).of(caller.organization, now_ms())
            return [one.describe(now_ms()) for one in found if all(matcher in one.matchers for matcher in matchers)]

        return json_response(await self._run(find))

    async def silence(self, request: Request, caller: Caller) -> Response:
        """Return one silence."""
        silence_id: str = request.path_params["id"]
        found = await self._run(lambda: Silences(self.documents).find(caller.organization, silence_id))
        if found is None:
            raise _unknown_silence(silence_id)
        return json_response(found.describe(now_ms()))

    async def put_silence(self, request: Request, caller: Caller) -> Response:
        """Store a silence."""
        _check_origin(request, caller)
        document = parse_json(await read_body(request))
        if not isinstance(document, dict):
            raise Failure(400, "bad_request", "the body is not a silence, expected an object with matchers")
        try:
            stored = await self._run(lambda: Silences(self.documents).put(caller.organization, document, now_ms()))
        except InvalidSilence as error:
            raise Failure(400, "bad_request", error.message) from error
        if stored is None:
            raise _unknown_silence(str(document.get("id")))
        told = stored.describe(now_ms())
        facts = {name: told[name] for name in ("startsAt", "endsAt", "createdBy", "comment")}
        await self._record(
            request, caller, "silence.put", stored.id, matchers=", ".join(map(str, stored.matchers)), **facts
        )
        return json_response({"silenceID": stored.id})

    async def expire_silence(self, request: Request, caller: Caller) -> Response:
        """End a silence."""
        _check_origin(request, caller)
        silence_id: str = request.path_params["id"]
        if not await self._run(lambda: Silences(self.documents).expire(caller.organization, silence_id, now_ms())):
            raise _unknown_silence(silence_id)
        await self._record(request, caller, "silence.expire", silence_id)
        return json_response({})

    async def _record(self, request: Request, caller: Caller, action: str, subject: str, **facts: object) -> None:
        """Store the audit entry of a change before its response."""
        facts["organization"] = caller.organization
        await self._run(lambda: record_change(AuditLog(self.documents), request, caller, action, subject, **facts))

    def _receivers(self, organization: str) -> list[str]:
        return [one.name for one in self.destinations if not one.organizations or organization in one.organizations]

    def _list_alerts(self, organization: str, pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        now, wanted = now_ms(), _read_alert_filter(pairs)
        silences = [one for one in Silences(self.documents).of(organization, now) if one.state(now) == "active"]
        groups = RuleStatuses(self.documents).of(organization)
        return list_alerts(groups, silences, self._receivers(organization), wanted)

    async def _run(self, call: Callable[[], Result]) -> Result:
        return await to_thread.run_sync(call, limiter=self.threads)


def _unknown_silence(silence_id: str) -> Failure:
    return Failure(404, "unknown_silence", f"there is no silence {silence_id[:64]!r}")


def _check_origin(request: Request, caller: Caller) -> None:
    """Reject changes by other web pages on a port without keys."""
    origin = request.headers.get("origin")
    if (
        not caller.key_id
        and origin is not None
        and not is_own_origin(origin, request.headers.get("host", ""), request.url.scheme)
    ):
        message = f"pages of {origin[:LONGEST_SHOWN]!r} may not change silences on a port that requires no API key"
        raise Failure(403, "wrong_origin", message, hint="set query.auth to keys")


def _read_rule_filter(parameters: Parameters, pairs: Sequence[tuple[str, str]]) -> RuleFilter:
    def values(*names: str) -> frozenset[str]:
        return frozenset(text for name, text in pairs if name in names)

    return RuleFilter(
        parameters.text("type"),
        values("rule_name[]", "rule_name"),
        values("rule_group[]", "rule_group"),
        values("file[]", "file"),
        tuple(parameters.selectors()),
        parameters.text("exclude_alerts").lower() in {"true", "1", "t"},
        parameters.count("group_limit", 0),
        parameters.text("group_next_token"),
    )


def _read_alert_filter(pairs: Sequence[tuple[str, str]]) -> AlertFilter:
    given = dict(pairs)
    receiver = given.get("receiver", "")
    try:
        validate_regex(receiver)
    except RegexError as error:
        raise Failure(400, "bad_request", f"receiver: {error}") from error
    return AlertFilter(_read_matchers(pairs), _flag(given, "active"), _flag(given, "silenced"), receiver)


def _read_matchers(pairs: Sequence[tuple[str, str]]) -> tuple[Any, ...]:
    texts = [re.sub(r"^\{|\}$", "", text.strip()) for name, text in pairs if name == "filter"]
    try:
        return tuple(parse_matcher(text) for text in texts[:MAX_FILTERS] if text)
    except InvalidFilter as error:
        raise Failure(400, "bad_request", str(error)) from error


def _flag(given: dict[str, str], name: str) -> bool:
    text = given.get(name, "true").lower()
    if text not in WORDS:
        raise Failure(400, "bad_request", f"{name} is {text[:100]!r}, expected true or false")
    return WORDS[text]


def alerting_routes(endpoints: AlertingEndpoints, guard: Guard) -> list[Route]:
    """Return the routes of rules and alerts."""

    def door(path: str, **handlers: Handler) -> Route:
        changes = {method: Scope.WRITE for method in handlers if method in {"POST", "DELETE"}}
        return Route(path, Endpoint(guard, handlers, method_scopes=changes))

    return [
        door(f"{PROMETHEUS}/rules", GET=endpoints.rules),
        door(f"{PROMETHEUS}/alerts", GET=endpoints.prometheus_alerts),
        door(f"{ALERTMANAGER}/status", GET=endpoints.status),
        door(f"{ALERTMANAGER}/receivers", GET=endpoints.receivers),
        door(f"{ALERTMANAGER}/alerts", GET=endpoints.alerts),
        door(f"{ALERTMANAGER}/alerts/groups", GET=endpoints.groups),
        door(f"{ALERTMANAGER}/silences", GET=endpoints.silences, POST=endpoints.put_silence),
        door(f"{ALERTMANAGER}/silence/{{id}}", GET=endpoints.silence, DELETE=endpoints.expire_silence),
    ]
