"""Errors of the API as responses: a status, a code for programs and a message; and JSON responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from neve.errors import LakeError, LimitExceeded, QueryCancelled, QueryError, TableMissing
from neve.logger import get_logger
from neve.query.engine_errors import (
    FAILED,
    UNAVAILABLE,
    FilesMissing,
    StorageUnavailable,
    classify_planning_error,
    public_message,
)
from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping


RETRY_SECONDS = 2
RETRY = {"retry-after": str(RETRY_SECONDS)}
CONCURRENCY = "concurrency"
# The message of the query package; tests compare it with that of a missing table.
NO_TABLE = "is not a table of the lake"
CANCELLED = "the query was cancelled"
WRONG_SCOPE_HINT = (
    "scopes do not include each other; a key may have several: `neve keys create --scope read --scope admin`"
)

log = get_logger("neve.api")


class Failure(Exception):
    """Raised when a request can't be served; the client gets all of its fields."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        limit: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.limit = limit
        self.headers = dict(headers or {})

    @property
    def as_document(self) -> dict[str, Any]:
        """Return the error part of a response."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "limit": self.limit}


def to_failure(error: Exception, *, cancelled: bool = False) -> Failure:
    """Convert an error into a response; of an internal error only the failure itself is reported."""
    if cancelled or isinstance(error, QueryCancelled):
        return Failure(409, "cancelled", CANCELLED)
    error = classify_planning_error(error)
    match error:
        case Failure():
            failure = error
        case Refusal():
            failure = _refusal_failure(error)
        case LimitExceeded():
            failure = _limit_failure(error)
        case FilesMissing() | StorageUnavailable() | LakeError():
            failure = _unavailable_failure(error)
        case QueryError():
            code = "unknown_table" if NO_TABLE in error.message else "bad_query"
            failure = Failure(400, code, _public_message(error), hint=error.hint)
        case _:
            log.error("a query failed", exc_info=error)
            failure = Failure(500, "failed", FAILED)
    return failure


def _refusal_failure(refusal: Refusal) -> Failure:
    headers = {"www-authenticate": "Bearer"} if refusal.verdict is Verdict.NO_KEY else {}
    again = RETRY if refusal.verdict.is_retryable else {}
    hint = WRONG_SCOPE_HINT if refusal.reason == "wrong_scope" else None
    return Failure(refusal.verdict.http, refusal.reason, refusal.message, hint=hint, headers={**headers, **again})


def _limit_failure(error: LimitExceeded) -> Failure:
    """Return the failure of an exceeded limit.

    Too many queries at a time can be retried later. A query that is too large fails again.
    """
    if error.limit == CONCURRENCY:
        return Failure(429, "too_many_queries", error.message, hint=error.hint, limit=error.limit, headers=RETRY)
    return Failure(422, "limit_exceeded", _public_message(error), hint=error.hint, limit=error.limit)


def _public_message(error: QueryError) -> str:
    """Return the message of an error for the client; the log has the full message."""
    words = public_message(error)
    if words != error.message:
        log.warning("a query failed", reason=error.message)
    return words


def _unavailable_failure(error: LakeError | QueryError) -> Failure:
    """Return the failure of an unavailable store.

    The message of the store contains hosts and paths, which belong in the log.
    """
    log.warning("can't read the lake", reason=error.message)
    if isinstance(error, TableMissing):
        return Failure(503, "no_tables", "the lake has no tables, or not all of them", headers=RETRY)
    return Failure(503, "lake_unavailable", UNAVAILABLE, hint="retry", headers=RETRY)


QUERY_ID = "neve-query-id"


def json_response(content: Failure | Any, query_id: str | None = None, status: int = 200) -> JSONResponse:
    """Return a JSON response with a document or an error, and the id of its query."""
    headers = {"cache-control": "no-store"} | ({QUERY_ID: query_id} if query_id else {})
    if isinstance(content, Failure):
        body = {"error": content.as_document, "id": query_id}
        return JSONResponse(body, content.status, {**headers, **content.headers})
    return JSONResponse(content, status, headers)
