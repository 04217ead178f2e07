"""What all paths of control share: the scope, words for what goes wrong, and threads for what blocks."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, to_thread

from neve.api.access import LONGEST_SHOWN, is_own_origin
from neve.api.query.errors import Failure
from neve.errors import ConfigError, TableMissing
from neve.lake.scopes import Scope
from neve.work.refusals import WorkMissing, WorkRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from neve.api.query.door import Handler
    from neve.lake.scopes import Caller

Result = TypeVar("Result")
SAFE = ("GET", "HEAD")
THREADS = 8


class Threads:
    """Threads for calls that block, apart from those of queries: an operator is answered when queries pile up."""

    def __init__(self) -> None:
        self._limit = CapacityLimiter(THREADS)

    async def run(self, call: Callable[[], Result]) -> Result:
        """The answer of a call."""
        return await to_thread.run_sync(call, limiter=self._limit)


def guarded(handler: Handler) -> Handler:
    """A handler whose errors have a status, and that no page of a browser reaches without a key."""

    @wraps(handler)
    async def handle(request: Request, caller: Caller) -> ASGIApp:
        _check_open(request, caller)
        try:
            return await handler(request, caller)
        except WorkMissing as error:
            raise Failure(404, "not_found", error.message[:LONGEST_SHOWN], hint=error.hint) from error
        except WorkRefused as error:
            raise Failure(409, "conflict", error.message, hint=error.hint) from error
        except TableMissing as error:
            raise Failure(404, "unknown_table", error.message, hint=error.hint) from error
        except ConfigError as error:
            raise Failure(400, "bad_request", error.message, hint=error.hint) from error

    return handle


def who(caller: Caller) -> str:
    """Who does something, as it is logged and kept."""
    return f"key {caller.key_id}" if caller.key_id else "anyone on this machine"


def _check_open(request: Request, caller: Caller) -> None:
    """Without keys whoever reaches the port may look. Changes need a setting, and no page but our own may make them."""
    if caller.key_id or request.method in SAFE:
        return
    origin = request.headers.get("origin")
    if origin is not None and not is_own_origin(origin, request.headers.get("host", "")):
        message = f"a page of {origin[:LONGEST_SHOWN]!r} may not operate a lake without a key"
        raise Failure(403, "wrong_origin", message, hint="set query.auth to keys")
    if not caller.may(Scope.ADMIN):
        call = f"{request.method} {request.url.path[:LONGEST_SHOWN]}"
        hint = "use the command line (`neve jobs`, `neve policies`), or set query.open_admin, or query.auth to keys"
        raise Failure(403, "no_admin", f"{call} changes the lake's work, and this port asks for no keys", hint=hint)
