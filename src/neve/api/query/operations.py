"""The operations of the query API."""

from __future__ import annotations

from neve.api.query.documents import AnswerDocument, QueriesDocument, QueryDocument, TableDocument, TablesDocument
from neve.api.query.operation import Operation
from neve.api.query.question import Question

EXAMPLE = {
    "sql": "SELECT service_name, count(*) AS errors FROM spans WHERE status_code = $status GROUP BY ALL",
    "parameters": {"status": 2},
    "since": "2026-01-01T00:00:00Z",
    "limit": 100,
}
ASKED = {
    400: "the body or the statement is wrong: bad_request, bad_query, unknown_table",
    406: "no form that `Accept` names",
    409: "the query was cancelled before it had rows",
    422: "the query would take more than it may have: memory, seconds, scan_bytes or rows. Sending it again won't help",
    429: "too many queries run already; come back after `Retry-After` seconds",
}
QUERY_OPERATIONS = (
    Operation(
        "post",
        "/query",
        "query",
        "Answer a statement",
        AnswerDocument,
        failures=tuple(ASKED.items()),
        body=Question,
        example=EXAMPLE,
    ),
    Operation("get", "/tables", "listTables", "The tables", TablesDocument),
    Operation("get", "/tables/{name}", "describeTable", "One table", TableDocument, failures=((404, "no such table"),)),
    Operation("get", "/queries", "listQueries", "The organization's queries that run", QueriesDocument),
    Operation(
        "get",
        "/queries/{id}",
        "getQuery",
        "A query that runs or ended lately",
        QueryDocument,
        failures=((404, "no such query of this organization"),),
    ),
    Operation(
        "delete",
        "/queries/{id}",
        "cancelQuery",
        "End a query; one that ended stays as it is",
        QueryDocument,
        status=202,
        failures=((403, "another key started it"), (404, "no such query of this organization")),
    ),
    Operation("get", "/openapi.json", "describe", "This description", None, scope=None),
)
