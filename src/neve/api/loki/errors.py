"""Errors as Loki sends them: plain text with a status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse

from neve.api.query.errors import CONCURRENCY
from neve.errors import EvaluationFailed, InvalidExpression, LakeError, LimitExceeded, QueryCancelled, QueryError
from neve.query.engine_errors import FilesMissing, StorageUnavailable

if TYPE_CHECKING:
    from starlette.responses import Response

    from neve.api.query.errors import Failure

__all__ = ["error_response"]

_HEADERS = {"cache-control": "no-store"}
_LIMITS = {"seconds": 504, CONCURRENCY: 429}
CANCELLED = 499


def error_response(error: Exception, failure: Failure) -> Response:
    """Return an error. The message of `failure` has no locations of the lake."""
    text = failure.message if failure.hint is None else f"{failure.message}\nhint: {failure.hint}"
    response = PlainTextResponse(text.encode(errors="replace"), _find_status(error), _HEADERS)
    response.headers.update(failure.headers)
    return response


def _find_status(error: Exception) -> int:
    match error:
        case LimitExceeded():
            return _LIMITS.get(error.limit, 400)
        case InvalidExpression() | EvaluationFailed():
            return 400
        case QueryCancelled():
            return CANCELLED
        case FilesMissing() | StorageUnavailable() | LakeError():
            return 503
        case QueryError():
            return 400
    return 500
