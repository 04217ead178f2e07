"""The path of policies: read with their version, and changed only by who has read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from neve.api.control.documents import PoliciesDocument
from neve.api.control.door import who
from neve.api.query.door import read_body
from neve.api.query.errors import Failure
from neve.api.query.replies import json_reply
from neve.api.query.strict import bad, parse, shown
from neve.work.policies import Policies
from neve.work.policy_files import read_policies
from neve.work.policy_store import PolicyConflict, version_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from neve.api.control.door import Threads
    from neve.app.control import Control
    from neve.lake.scopes import Caller

ANY = "*"

log = structlog.get_logger("neve.control")


@dataclass(frozen=True)
class PolicyPaths:
    """What applies to which tables, and who changed it."""

    control: Control
    threads: Threads

    async def read(self, _request: Request, _caller: Caller) -> Response:
        """The policies that hold."""
        return await self._reply()

    async def write(self, request: Request, caller: Caller) -> Response:
        """Let others hold, all of them checked first."""
        expected = _expected(request)
        value = _policies(parse(await read_body(request)))
        store = self.control.policies
        policies = Policies(read_policies(value, "the body"), store.given.defaults)
        version = await self._changed(lambda: store.save(policies, who(caller), expected))
        log.info("policies written", by=who(caller), version=version, policies=[one.name for one in policies.written])
        return await self._reply()

    async def clear(self, request: Request, caller: Caller) -> Response:
        """Let those of the files hold again."""
        expected = _expected(request)
        version = await self._changed(lambda: self.control.policies.clear(expected))
        log.info("policies cleared", by=who(caller), version=version)
        return await self._reply()

    async def _changed(self, change: Callable[[], str]) -> str:
        try:
            return await self.threads.run(change)
        except PolicyConflict as error:
            raise Failure(412, "changed", error.message, hint=error.hint) from error

    async def _reply(self) -> Response:
        policies, source = await self.threads.run(self._held)
        version = version_of(policies)
        document = PoliciesDocument(source=source, version=version, policies=policies.plain)
        reply = json_reply(document.plain)
        reply.headers["etag"] = f'"{version}"'
        return reply

    def _held(self) -> tuple[Policies, str]:
        store = self.control.policies
        return store.load(), store.source()


def _expected(request: Request) -> str | None:
    """The version that whoever changes policies has read; none where any will do."""
    header = request.headers.get("if-match", "").strip()
    if not header:
        hint = "send the ETag of GET /api/v1/policies as If-Match; If-Match: * takes whatever is there"
        raise Failure(428, "no_version", "policies are changed by who has read them: If-Match is missing", hint=hint)
    if header == ANY:
        return None
    version = header.removeprefix('"').removesuffix('"')
    if f'"{version}"' != header or not version.isalnum():
        raise bad(f"If-Match is {shown(header)}, expected one ETag in double quotes, or *")
    return version


def _policies(document: Any) -> list[Any]:
    if not isinstance(document, dict) or set(document) != {"policies"}:
        raise bad(f"the body is {shown(document)}, expected an object with the one key policies")
    value = document["policies"]
    if not isinstance(value, list):
        raise bad(f"policies is {shown(value)}, expected a list of policies")
    return value
