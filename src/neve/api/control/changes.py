"""Records of changes by operators: a line in the log of the process, and an entry in the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.api.slow_clients import find_client_name
from neve.logger import get_logger
from neve.model.settings import LAKE_OWNER
from neve.state.audit import describe_actor

if TYPE_CHECKING:
    from starlette.requests import Request

    from neve.api.control.routes import ControlThreads
    from neve.app.control import Control
    from neve.state.audit import AuditLog
    from neve.state.scopes import Caller

log = get_logger("neve.control")


def describe_caller(caller: Caller, certificate: str = "") -> str:
    """Return the caller's name for logs and records; `certificate` is the name in the client's certificate."""
    return describe_actor(caller.key_id, certificate) or "anyone on this machine"


def record_change(
    audit: AuditLog, request: Request, caller: Caller, action: str, subject: str, **facts: object
) -> None:
    """Store the entry of a change that a request made; raises `LakeError` if the store fails.

    `organization` among the facts is the tenant that it concerns; without it, the whole lake.
    """
    certificate = find_client_name(request.scope)
    organization = str(facts.pop("organization", LAKE_OWNER))
    by = {"by_organization": caller.organization} if organization == LAKE_OWNER else {}
    audit.record(
        action,
        actor=describe_caller(caller, certificate),
        origin=request.client.host if request.client else "",
        subject=subject,
        organization=organization,
        details={**facts, **by, "certificate": certificate},
    )


@dataclass(frozen=True)
class ChangeRecorder:
    """Recorder of changes that requests made. `action` and `subject` are those of the audit log."""

    control: Control
    threads: ControlThreads

    async def record(self, request: Request, caller: Caller, action: str, subject: str, **facts: object) -> None:
        """Store the entry before the client gets its response; raises `LakeError` if the store fails."""
        await self.threads.run(lambda: record_change(self.control.audit, request, caller, action, subject, **facts))
