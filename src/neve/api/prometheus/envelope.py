"""Successes and errors in Prometheus' envelope."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from neve.api.query.errors import CONCURRENCY
from neve.errors import InvalidExpression, LakeError, LimitExceeded, QueryCancelled, QueryError
from neve.query.engine_errors import FilesMissing, StorageUnavailable

if TYPE_CHECKING:
    from neve.api.query.errors import Failure

__all__ = ["error_response", "success_response"]

_HEADERS = {"cache-control": "no-store"}
_LIMIT_KINDS = {"seconds": ("timeout", 503), CONCURRENCY: ("unavailable", 429)}


def success_response(data: Any) -> Response:
    """Return the envelope of a success."""
    return _json({"status": "success", "data": data}, 200)


def error_response(error: Exception, failure: Failure) -> Response:
    """Return the envelope of an error. The message of `failure` has no locations of the lake."""
    kind, status = _find_kind(error)
    response = _json({"status": "error", "errorType": kind, "error": failure.message}, status)
    response.headers.update(failure.headers)
    return response


def _find_kind(error: Exception) -> tuple[str, int]:
    match error:
        case InvalidExpression():
            return "bad_data", 400
        case LimitExceeded():
            return _LIMIT_KINDS.get(error.limit, ("execution", 422))
        case QueryCancelled():
            return "canceled", 503
        case FilesMissing() | StorageUnavailable() | LakeError():
            return "unavailable", 503
        case QueryError():
            return "execution", 422
    return "internal", 500


def _json(document: dict[str, Any], status: int) -> Response:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode(errors="replace"), status, _HEADERS, "application/json")
