"""The OpenAPI description of the query and control API, built from the models of its requests and responses."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from neve import __version__
from neve.api.control.operations import CONTROL_OPERATIONS
from neve.api.explore.field_operations import FIELD_OPERATIONS
from neve.api.explore.operations import EXPLORE_OPERATIONS
from neve.api.language_operations import LANGUAGE_TAGS, describe_languages
from neve.api.operator.operations import OPERATOR_OPERATIONS
from neve.api.page.job_events import JOB_EVENT_OPERATIONS
from neve.api.page.live import LIVE_OPERATIONS
from neve.api.page.sign_in import SIGN_IN_OPERATIONS
from neve.api.page.views import VIEW_OPERATIONS
from neve.api.query.formats import MEDIA_TYPES
from neve.api.query.models import AnswerDocument, FailureDocument
from neve.api.query.operations import PREFIX, QUERY_OPERATIONS
from neve.api.tenant.operations import TENANT_OPERATIONS
from neve.state.scopes import Scope

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.json_schema import JsonSchemaMode

    from neve.api.query.operations import Operation

OPERATIONS: tuple[Operation, ...] = (
    *(*QUERY_OPERATIONS, *EXPLORE_OPERATIONS, *FIELD_OPERATIONS, *TENANT_OPERATIONS),
    *(*CONTROL_OPERATIONS, *OPERATOR_OPERATIONS),
    *(*SIGN_IN_OPERATIONS, *LIVE_OPERATIONS, *JOB_EVENT_OPERATIONS, *VIEW_OPERATIONS),
)
ID_HEADER = {"Neve-Query-Id": {"description": "id of the query", "schema": {"type": "string"}}}
TAGS = {
    Scope.READ: ("query", "SQL queries on the telemetry of one organization; the key needs the scope `read`"),
    Scope.ADMIN: ("control", "Status and control of the whole lake; the key needs the scope `admin`"),
}


@cache
def build_description() -> dict[str, Any]:
    """Build the whole description, in OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(f"{PREFIX}{operation.path}", {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Neve", "version": __version__, "description": "A telemetry lakehouse that maintains itself"},
        "tags": [{"name": name, "description": words} for name, words in (*TAGS.values(), *LANGUAGE_TAGS)],
        "paths": paths | describe_languages(),
        "components": {
            "schemas": _schemas()[1],
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "API key with the scope that the tag names",
                },
                "header": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
        # The empty third alternative: a server without keys requires none.
        "security": [{"bearer": []}, {"header": []}, {}],
    }


@cache
def _schemas() -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    """Return references to the schemas of the models, and all schemas.

    Requests are described as they are validated, responses as they are serialized.
    """
    answers: set[type[BaseModel]] = {FailureDocument, *(one.answer for one in OPERATIONS if one.answer)}
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        *((one.body, "validation") for one in OPERATIONS if one.body),
        *((one, "serialization") for one in sorted(answers, key=lambda model: model.__name__)),
    ]
    references, schemas = models_json_schema(models, ref_template="#/components/schemas/{model}")
    return dict(references), schemas["$defs"]


def _operation(operation: Operation) -> dict[str, Any]:
    document: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {
            str(operation.status): _success(operation),
            **{str(status): _failure(words) for status, words in operation.all_failures},
        },
    }
    parameters = [*_path_parameters(operation), *_query_parameters(operation), *_header_parameters(operation)]
    if parameters:
        document["parameters"] = parameters
    if operation.body:
        content = {"schema": _reference(operation.body, "validation"), "example": dict(operation.example)}
        document["requestBody"] = {"required": True, "content": {"application/json": content}}
    if operation.scope is None:
        document["security"] = []
    else:
        document["tags"] = [TAGS[operation.scope][0]]
    return document


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    """Return a parameter for each key of the model, with inlined choices."""
    if operation.query is None:
        return []
    found = []
    for name, schema in operation.query.model_json_schema(mode="validation")["properties"].items():
        kind = {key: value for key, value in schema.items() if key != "description" and value is not None}
        found.append({"name": name, "in": "query", "description": schema["description"], "schema": kind})
    return found


def _header_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "description": words, "schema": {"type": "string"}}
        for name, words in operation.headers.items()
    ]


def _success(operation: Operation) -> dict[str, Any]:
    if operation.answer is None:
        return {"description": operation.summary, "content": {"application/json": {"schema": {"type": "object"}}}}
    content: dict[str, Any] = {"application/json": {"schema": _reference(operation.answer)}}
    if operation.answer is not AnswerDocument:
        return {"description": operation.summary, "content": content}
    others = {kind: {"schema": {"description": f"as {form}"}} for form, kind in MEDIA_TYPES.items() if form != "json"}
    words = (
        "the streamed result. An error after the first row is the last member of the object, `error`, or the last "
        "line of jsonl; in other formats the connection closes early"
    )
    return {"description": words, "headers": ID_HEADER, "content": content | others}


def _failure(words: str) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": _reference(FailureDocument)}}}


def _reference(model: type[BaseModel], mode: JsonSchemaMode = "serialization") -> Any:
    return _schemas()[0][model, mode]
