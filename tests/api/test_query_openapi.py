"""The description of the query API is right: it is valid, it has every path, and what it says is what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from openapi_spec_validator import validate
from starlette.routing import Route

from neve.api.control.routes import control_routes
from neve.api.explore.routes import explore_routes
from neve.api.jaeger.routes import jaeger_routes
from neve.api.loki.routes import loki_routes
from neve.api.openapi import build_description
from neve.api.page.job_events import job_event_routes
from neve.api.page.live import live_routes
from neve.api.page.sign_in import sign_in_routes
from neve.api.page.views import view_routes
from neve.api.query.errors import Failure
from neve.api.query.models import Question, StatisticsDocument
from neve.api.query.routes import query_routes
from neve.api.tempo.routes import tempo_routes
from neve.api.tenant.routes import tenant_routes
from neve.query.config import QueryConfig
from neve.query.request import ScanStatistics, Statistics
from neve.query.service import QueryService
from neve.receive.authentication import OpenGuard
from tests.api.querying import Client, serving
from tests.query.lakes import make_lake

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[Client]:
    """Asks a small lake."""
    service = QueryService(make_lake(tmp_path_factory.mktemp("lake")), QueryConfig())
    with serving(service) as found:
        yield found
    service.close()


def check(name: str, document: Any) -> None:
    """A document is what the description says of it."""
    schemas = {"components": {"schemas": build_description()["components"]["schemas"]}}
    Draft202012Validator({"$ref": f"#/components/schemas/{name}", **schemas}).validate(document)


def test_it_is_valid(client: Client) -> None:
    """And it is what the server gives."""
    served = client.get("/openapi.json").json
    validate(served)
    assert served == build_description()
    assert served["openapi"] == "3.1.0"


def test_it_has_every_path_and_method() -> None:
    """And no other."""
    nothing: Any = None
    guard = OpenGuard("acme")
    page = [
        *sign_in_routes(guard, None, is_secure=False),
        *live_routes(nothing, guard, nothing),
        *job_event_routes(nothing, guard, nothing),
        *view_routes(nothing, guard),
    ]
    own = tenant_routes(nothing, nothing, guard)
    explore = explore_routes(nothing, guard)
    languages = [*loki_routes(nothing, guard), *tempo_routes(nothing, guard), *jaeger_routes(nothing, guard)]
    all_routes = [*control_routes(nothing, guard), *own, *page, *explore, *query_routes(nothing, guard)]
    all_routes += [one for one in languages if isinstance(one, Route)]  # the WebSocket has the path of its refusal
    doors: dict[str, Any] = {route.path.replace(":path}", "}"): route.endpoint for route in all_routes}
    routes = {path: set(door.handlers) for path, door in doors.items() if door.handlers}
    described = {path: {method.upper() for method in methods} for path, methods in build_description()["paths"].items()}
    assert described == routes


def test_its_example_works(client: Client) -> None:
    """Sent as it stands there."""
    content = build_description()["paths"]["/api/v1/query"]["post"]["requestBody"]["content"]["application/json"]
    check("Question", content["example"])
    reply = client.ask(**content["example"])
    assert (reply.status, reply.json.get("error")) == (200, None)


def test_answers_are_as_described(client: Client) -> None:
    """Of every path, and of what goes wrong."""
    answer = client.ask("SELECT trace_id, attributes FROM spans")
    check("AnswerDocument", answer.json)
    check("QueryDocument", client.get(f"/queries/{answer.json['id']}").json)
    check("QueriesDocument", client.get("/queries").json)
    check("TablesDocument", client.get("/tables").json)
    check("TableDocument", client.get("/tables/spans").json)
    for failed in (client.ask("SELEC"), client.get("/tables/x"), client.send("PUT", "/api/v1/query")):
        check("FailureDocument", failed.json)


def test_every_status_of_the_house_is_described() -> None:
    """Of those that a question can get."""
    described = set(build_description()["paths"]["/api/v1/query"]["post"]["responses"])
    assert {"200", "400", "401", "403", "406", "408", "409", "413", "415", "422", "429", "500", "503"} == described


def test_the_keys_of_a_question_are_explained() -> None:
    """Each with words and no full stop, and a wrong value is told with them."""
    for name, field in Question.model_fields.items():
        assert field.description, name
        assert not field.description.endswith(".")
    schema = build_description()["components"]["schemas"]["Question"]
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["sql"]


def test_statistics_are_told_completely() -> None:
    """What the query room adds must be described."""
    whole = Statistics(scans=(ScanStatistics("t", 1, 1, 1, 1, 1),)).as_document()
    assert set(StatisticsDocument.model_fields) == set(whole)
    assert StatisticsDocument.model_validate(whole).plain["scans"] == list(whole["scans"])
    assert set(Failure(400, "c", "m").as_document) == {"code", "message", "hint", "limit"}
