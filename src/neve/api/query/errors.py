"""What is told when a question is not answered: a status, a code that programs can tell apart, and words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from neve.errors import LakeError, LimitExceeded, QueryCancelled, QueryError, TableMissing
from neve.query.failures import FAILED, UNAVAILABLE, FilesGone, StoreAway, planning_words, public_words
from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

RETRY_SECONDS = 2
RETRY = {"retry-after": str(RETRY_SECONDS)}
CONCURRENCY = "concurrency"
# How the query room says it; tests ask for a table that there is not.
NO_TABLE = "is not a table of the lake"
CANCELLED = "the query was cancelled"

log = structlog.get_logger("neve.api")


class Failure(Exception):
    """Raised when a request can't be answered; its sender is told all of it."""

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
        """The part of an answer that says what is wrong."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "limit": self.limit}


def failure_of(error: Exception, *, cancelled: bool = False) -> Failure:
    """What is told about an error; of the house itself no more than that it failed."""
    if cancelled or isinstance(error, QueryCancelled):
        return Failure(409, "cancelled", CANCELLED)
    error = planning_words(error)
    match error:
        case Failure():
            failure = error
        case Refusal():
            failure = _refused(error)
        case LimitExceeded():
            failure = _limited(error)
        case FilesGone() | StoreAway() | LakeError():
            failure = _away(error)
        case QueryError():
            code = "unknown_table" if NO_TABLE in error.message else "bad_query"
            failure = Failure(400, code, _public(error), hint=error.hint)
        case _:
            log.error("a query failed", exc_info=error)
            failure = Failure(500, "failed", FAILED)
    return failure


def _refused(refusal: Refusal) -> Failure:
    headers = {"www-authenticate": "Bearer"} if refusal.verdict is Verdict.NO_KEY else {}
    again = RETRY if refusal.verdict.comes_back else {}
    return Failure(refusal.verdict.http, refusal.reason, refusal.message, headers={**headers, **again})


def _limited(error: LimitExceeded) -> Failure:
    """Too many at a time is worth coming back for; what is too large stays too large, however often it is sent."""
    if error.limit == CONCURRENCY:
        return Failure(429, "too_many_queries", error.message, hint=error.hint, limit=error.limit, headers=RETRY)
    return Failure(422, "limit_exceeded", _public(error), hint=error.hint, limit=error.limit)


def _public(error: QueryError) -> str:
    """The words of an error for whoever asked; the log has all of them."""
    words = public_words(error)
    if words != error.message:
        log.warning("a query failed", reason=error.message)
    return words


def _away(error: LakeError | QueryError) -> Failure:
    """The words of a store name hosts and paths: they are for the log."""
    log.warning("the lake did not answer", reason=error.message)
    if isinstance(error, TableMissing):
        return Failure(503, "no_tables", "the lake has no tables, or not all of them", headers=RETRY)
    return Failure(503, "lake_unavailable", UNAVAILABLE, hint="ask again", headers=RETRY)
