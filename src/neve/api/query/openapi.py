"""The description of the query API, made of the models that requests are checked with and answers are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from neve import __version__
from neve.api.query.accept import MEDIA_TYPES
from neve.api.query.documents import (
    AnswerDocument,
    FailureDocument,
    QueriesDocument,
    QueryDocument,
    TableDocument,
    TablesDocument,
)
from neve.api.query.question import Question

if TYPE_CHECKING:
    from pydantic import BaseModel

PREFIX = "/api/v1"
EXAMPLE = {
    "sql": "SELECT service_name, count(*) AS errors FROM spans WHERE status_code = $status GROUP BY ALL",
    "parameters": {"status": 2},
    "since": "2026-01-01T00:00:00Z",
    "limit": 100,
}
NO_ENTRY = {
    401: "no key was sent",
    403: "the key is unknown or revoked, or may not read",
    500: "the server failed",
    503: "the lake or the store of keys does not answer; come back after `Retry-After` seconds",
}
ASKED = {
    400: "the body or the statement is wrong: bad_request, bad_query, unknown_table",
    406: "no form that `Accept` names",
    408: "the body was too slow",
    409: "the query was cancelled before it had rows",
    413: "the body is too large",
    415: "the body is no JSON",
    422: "the query would take more than it may have: memory, seconds, scan_bytes or rows. Sending it again won't help",
    429: "too many queries run already; come back after `Retry-After` seconds",
}


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    name: str
    summary: str
    answer: type[BaseModel] | None
    status: int = 200
    failures: tuple[tuple[int, str], ...] = ()
    is_public: bool = False


OPERATIONS = (
    Operation("post", "/query", "query", "Answer a statement", AnswerDocument, failures=tuple(ASKED.items())),
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
        failures=((404, "no such query of this organization"),),
    ),
    Operation("get", "/openapi.json", "describe", "This description", None, is_public=True),
)
MODELS: tuple[type[BaseModel], ...] = (Question, FailureDocument, *(one.answer for one in OPERATIONS if one.answer))
ID_HEADER = {"Neve-Query-Id": {"description": "the id of the query", "schema": {"type": "string"}}}


@cache
def description() -> dict[str, Any]:
    """The whole of it, in OpenAPI 3.1."""
    _, schemas = models_json_schema(
        [(model, "validation" if model is Question else "serialization") for model in MODELS],
        ref_template="#/components/schemas/{model}",
    )
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(f"{PREFIX}{operation.path}", {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Neve", "version": __version__, "description": "SQL over telemetry, for one organization"},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "an API key with the scope read"},
                "header": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
        # Nothing is the third: a server without keys asks for none.
        "security": [{"bearer": []}, {"header": []}, {}],
    }


def _operation(operation: Operation) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {
            str(operation.status): _success(operation),
            **{str(status): _failure(words) for status, words in _failures(operation)},
        },
    }
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    if names:
        said["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if operation.method == "post":
        content = {"schema": _reference(Question), "example": EXAMPLE}
        said["requestBody"] = {"required": True, "content": {"application/json": content}}
    if operation.is_public:
        said["security"] = []
    return said


def _failures(operation: Operation) -> list[tuple[int, str]]:
    entry = () if operation.is_public else tuple(NO_ENTRY.items())
    return sorted((*operation.failures, *entry))


def _success(operation: Operation) -> dict[str, Any]:
    if operation.answer is None:
        return {"description": operation.summary, "content": {"application/json": {"schema": {"type": "object"}}}}
    content: dict[str, Any] = {"application/json": {"schema": _reference(operation.answer)}}
    if operation.answer is not AnswerDocument:
        return {"description": operation.summary, "content": content}
    others = {kind: {"schema": {"description": f"as {form}"}} for form, kind in MEDIA_TYPES.items() if form != "json"}
    words = (
        "the result, as it comes. What fails after the first row is the last member of the object, `error`, or the "
        "last line of jsonl; in other forms the connection ends before the answer does"
    )
    return {"description": words, "headers": ID_HEADER, "content": content | others}


def _failure(words: str) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": _reference(FailureDocument)}}}


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}
