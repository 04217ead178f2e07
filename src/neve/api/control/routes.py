"""The paths of control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from neve.api.control.door import Threads, guarded
from neve.api.control.job_paths import JobPaths
from neve.api.control.lake_paths import LakePaths
from neve.api.control.policy_paths import PolicyPaths
from neve.api.query.door import QueryDoor
from neve.api.query.operation import PREFIX
from neve.lake.scopes import Scope

if TYPE_CHECKING:
    from neve.api.query.door import Handler
    from neve.app.control import Control
    from neve.receive.keys import Guard


def control_routes(control: Control, guard: Guard) -> list[Route]:
    """Every path of control; each asks for a key that may operate."""
    threads = Threads()
    lake, jobs, policies = LakePaths(control, threads), JobPaths(control, threads), PolicyPaths(control, threads)

    def door(path: str, **handlers: Handler) -> Route:
        safe = {method: guarded(handler) for method, handler in handlers.items()}
        return Route(f"{PREFIX}{path}", QueryDoor(guard, safe, scope=Scope.ADMIN))

    return [
        door("/status", GET=lake.status),
        door("/lake/tables", GET=lake.tables),
        door("/lake/tables/{name}", GET=lake.table),
        door("/plan", GET=lake.plan),
        door("/parts", GET=lake.parts),
        door("/history", GET=lake.history),
        door("/jobs", GET=jobs.jobs, POST=jobs.start),
        door("/jobs/{id}", GET=jobs.job),
        door("/jobs/{id}/cancel", POST=jobs.cancel),
        door("/jobs/{id}/replay", POST=jobs.replay),
        door("/pauses", GET=jobs.pauses, POST=jobs.pause),
        door("/pauses/{id}", DELETE=jobs.resume),
        door("/policies", GET=policies.read, PUT=policies.write, DELETE=policies.clear),
    ]
