"""Operations of the API as OpenAPI describes them: the model of one, and those of the query API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.api.query.models import (
    AnswerDocument,
    QueriesDocument,
    QueryDocument,
    Question,
    Questions,
    ResultsDocument,
    TableDocument,
    TablesDocument,
)
from neve.state.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel


PREFIX = "/api/v1"
BODY_FAILURES = (
    (408, "the body was too slow"),
    (413, "the body is too large"),
    (415, "the body is not JSON"),
)


@dataclass(frozen=True)
class Operation:
    """An operation: its request, its response, and its errors."""

    method: str
    path: str
    name: str
    summary: str
    answer: type[BaseModel] | None
    status: int = 200
    failures: tuple[tuple[int, str], ...] = ()
    body: type[BaseModel] | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    query: type[BaseModel] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    scope: Scope | None = Scope.READ

    @property
    def is_public(self) -> bool:
        """True if it needs no key."""
        return self.scope is None

    @property
    def all_failures(self) -> list[tuple[int, str]]:
        """Return every error status, with a description."""
        bodies = BODY_FAILURES if self.body else ()
        entry = () if self.scope is None else access_failures(self.scope)
        return sorted((*self.failures, *bodies, *entry))


def access_failures(scope: Scope) -> tuple[tuple[int, str], ...]:
    """Return the errors of missing and wrong keys, and of failures of the server."""
    return (
        (401, "no key was sent"),
        (403, f"the key is unknown or revoked, or does not have the scope {scope}"),
        (500, "the server failed"),
        (503, "the lake or the key store is unavailable; retry after `Retry-After` seconds"),
    )


EXAMPLE = {
    "sql": "SELECT service_name, count(*) AS errors FROM spans WHERE status_code = $status GROUP BY ALL",
    "parameters": {"status": 2},
    "since": "2026-01-01T00:00:00Z",
    "limit": 100,
}
QUERY_FAILURES = {
    400: "the body or the statement is wrong: bad_request, bad_query, unknown_table",
    406: "no format of `Accept` is supported",
    409: "the query was cancelled before it had rows",
    422: "the query exceeds a limit: memory, seconds, scan_bytes or rows. A retry fails again",
    429: "too many concurrent queries; retry after `Retry-After` seconds",
}
QUERY_OPERATIONS = (
    Operation(
        "post",
        "/query",
        "query",
        "Run a query",
        AnswerDocument,
        failures=tuple(QUERY_FAILURES.items()),
        body=Question,
        example=EXAMPLE,
    ),
    Operation(
        "post",
        "/query/batch",
        "queryBatch",
        "Run several queries one after the other, with results as columns",
        ResultsDocument,
        failures=((400, QUERY_FAILURES[400]),),
        body=Questions,
        example={"questions": [EXAMPLE, {"sql": "SELECT count(*) FROM logs"}]},
    ),
    Operation("get", "/tables", "listTables", "The tables", TablesDocument),
    Operation("get", "/tables/{name}", "describeTable", "One table", TableDocument, failures=((404, "no such table"),)),
    Operation("get", "/queries", "listQueries", "Running queries of the organization", QueriesDocument),
    Operation(
        "get",
        "/queries/{id}",
        "getQuery",
        "One query that is running or ended recently",
        QueryDocument,
        failures=((404, "no such query of this organization"),),
    ),
    Operation(
        "delete",
        "/queries/{id}",
        "cancelQuery",
        "Cancel a query; no effect if it has ended",
        QueryDocument,
        status=202,
        failures=((403, "another key started it"), (404, "no such query of this organization")),
    ),
    Operation("get", "/openapi.json", "describe", "This description", None, scope=None),
)
