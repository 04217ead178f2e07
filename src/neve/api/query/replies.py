"""Answers that are one JSON document."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from neve.api.query.errors import Failure

QUERY_ID = "neve-query-id"


def json_reply(told: Failure | Any, query_id: str | None = None, status: int = 200) -> JSONResponse:
    """A document, or what is wrong, with the id of the query that it is about."""
    headers = {"cache-control": "no-store"} | ({QUERY_ID: query_id} if query_id else {})
    if isinstance(told, Failure):
        content = {"error": told.as_document, "id": query_id}
        return JSONResponse(content, told.status, {**headers, **told.headers})
    return JSONResponse(told, status, headers)
