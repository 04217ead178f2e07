"""The API of traces and services: documents, bad requests, tenancy, cancellation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from neve.api.explore.field_operations import FIELD_OPERATIONS
from neve.api.explore.operations import EXPLORE_OPERATIONS
from neve.api.explore.routes import explore_routes
from neve.api.openapi import build_description
from neve.query.config import LimitRule, QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports, QueryService
from neve.receive.authentication import OpenGuard
from tests.api.querying import Client, serving
from tests.api.running import JSON, Reply
from tests.explore.traces import CHECKOUT, HOSTILE, SECRET, make_trace_lake, span_id
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake
    from neve.query.request import QueryLogEntry

TRACE = f"/traces/{CHECKOUT.hex()}"
RANGE = "since=2025-10-09T08:50:00Z&until=2025-10-09T09:50:00Z"
COUNTED = f"{RANGE}&where=severity_number+%3E%3D+%24least&parameters=%7B%22least%22:1%7D"
PATHS = {
    TRACE: "TraceDocument",
    f"{TRACE}/spans/{span_id(3).hex()}": "SpansDocument",
    f"{TRACE}/logs?span_id={span_id(3).hex()}&limit=5": "TraceLogsDocument",
    f"{TRACE}/decisions": "DecisionsDocument",
    "/services?since=2025-10-01T00:00:00Z&until=2025-11-01T00:00:00Z&service=web": "ServicesDocument",
    "/services/edges?since=2025-10-01T00:00:00%2B02:00": "EdgesDocument",
    "/functions": "FunctionsDocument",
    f"/fields?{COUNTED}": "FieldsDocument",
    f"/fields/values?{COUNTED}&fields=%5B%22service_name%22,%22service.name%22%5D&limit=1": "ValuesDocument",
    f"/histogram?{COUNTED}&by=severity_number": "HistogramDocument",
    f"/logs/{'0' * 32}/nearby?time=2025-10-09T08:53:20.005Z&service=payment": "NearbyDocument",
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """The lake with a trace of each of two organizations."""
    return make_trace_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def pool(lake: Lake) -> Iterator[WorkerPool]:
    """Workers, one of them warm."""
    made = WorkerPool(lake, QueryConfig(threads=1, memory_limit="500MB", warm_workers=1))
    yield made
    made.close()


@pytest.fixture(scope="module")
def log() -> list[QueryLogEntry]:
    """Entries of the query log."""
    return []


@pytest.fixture(scope="module")
def service(lake: Lake, pool: WorkerPool, log: list[QueryLogEntry]) -> QueryService:
    """The service over the lake."""
    return QueryService(lake, QueryConfig(cache_bytes=0), ports=Ports(engine=pool), log=log.append)


@pytest.fixture(scope="module")
def client(service: QueryService) -> Iterator[Client]:
    """A client of acme."""
    guard = OpenGuard(ACME)
    with serving(service, guard, first=explore_routes(service, guard)) as found:
        yield found


def test_documents(client: Client) -> None:
    """Every path answers as OpenAPI describes it, with the id of its query."""
    schemas = {"components": {"schemas": build_description()["components"]["schemas"]}}
    for path, name in PATHS.items():
        reply = client.get(path)
        assert reply.status == 200, (path, reply.body)
        Draft202012Validator({"$ref": f"#/components/schemas/{name}", **schemas}).validate(reply.json)
    described = {one.answer.__name__ for one in (*EXPLORE_OPERATIONS, *FIELD_OPERATIONS) if one.answer}
    assert described == set(PATHS.values())
    trace = client.get(TRACE)
    found = client.get(f"/queries/{trace.headers['neve-query-id']}").json
    assert (found["state"], found["statistics"]["scans"][0]["table"]) == ("done", "spans")


def test_forms_of_ids(client: Client) -> None:
    """An id is accepted in any form that people paste, and another text is refused with the expected form."""
    for form in (CHECKOUT.hex().upper(), f"00-{CHECKOUT.hex()}-{span_id(1).hex()}-01"):
        assert client.get(f"/traces/{form}").json["span_count"] == 7
    for path in (
        "/traces/xyz",
        "/traces/12",
        "/traces/%27%20OR%201=1",
        f"{TRACE}/spans/zz",
        f"{TRACE}/spans/{'0' * 15}'",
    ):
        reply = client.get(path)
        assert (reply.status, reply.json["error"]["code"]) == (400, "bad_request"), path
        assert "hexadecimal digits" in reply.json["error"]["message"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/services?since=yesterday", "since is"),
        ("/services?sincee=2025-10-01T00:00:00Z", "unknown key"),
        ("/services/edges?service=web", "unknown key"),
        (f"{TRACE}/logs?limit=1001", "limit is"),
        (f"{TRACE}/logs?span_id=1", "span_id is"),
        (f"{TRACE}/logs?limit=1&limit=2", "given twice"),
        ("/fields?table=queries", "table is"),
        ("/fields?parameters=[1]", "parameters is"),
        ("/fields?where=no_such_column", "no_such_column"),
        ("/fields/values", "fields is missing"),
        ("/fields/values?fields=[]", "fields is"),
        ("/histogram?since=2025-10-09T08:50:00Z", "until is missing"),
        ("/histogram?since=2025-10-09T08:50:00Z&until=2025-10-09T08:50:00Z", "until is not after since"),
        (f"/histogram?{RANGE}&by=message", "by is"),
        (f"/histogram?{RANGE}&bars=501", "bars is"),
        ("/logs/x/nearby?time=2025-10-09T08:50:00Z", "32 hexadecimal digits"),
        (f"/logs/{'0' * 32}/nearby", "time is missing"),
    ],
)
def test_bad_requests(client: Client, path: str, words: str) -> None:
    """A wrong key or value is refused with its name and what was expected."""
    reply = client.get(path)
    assert reply.status == 400
    assert words in reply.json["error"]["message"]


def test_tenants(client: Client, service: QueryService) -> None:
    """A key of another organization finds no record, name or decision of this one, by any path and parameter."""
    guard = OpenGuard(OTHER)
    with serving(service, guard, first=explore_routes(service, guard)) as other:
        assert other.get(f"/traces/{SECRET.hex()}").json["span_count"] == 1
        for path in PATHS:
            body = other.get(path).body.decode()
            assert not any(word in body for word in ("payment", "checkout", "a span has", "started", "cards")), path
        query = client.get(TRACE).headers["neve-query-id"]
        assert other.get(f"/queries/{query}").status == 404
        assert other.send("DELETE", f"/api/v1/queries/{query}").status == 404
    hidden = json.dumps([client.get(f"/traces/{SECRET.hex()}{rest}").json for rest in ("", "/logs", "/decisions")])
    assert "vault" not in hidden
    assert "sampled" not in hidden
    assert "vault" not in client.get("/services").body.decode()
    assert client.get("/services?service=vault").json["services"] == []


def test_fields(client: Client) -> None:
    """Attributes, values and bars of the records that a condition selects; logs near one, in the order of time."""
    fields = client.get(f"/fields?{RANGE}").json
    assert {(one["kind"], one["name"]) for one in fields["attributes"]} == {("resource", "service.name")}
    names = urlencode({"fields": json.dumps(["severity_number", "service.name", "none"])})
    severity, service, none = client.get(f"/fields/values?{RANGE}&{names}&limit=1").json["fields"]
    assert (len(severity["values"]), severity["more"]) == (1, True)
    assert (service["values"], service["more"]) == ([{"value": "payment", "records": 3}], False)
    assert none["values"] == []
    histogram = client.get(f"/histogram?{RANGE}&by=severity_number&bars=60").json
    assert (histogram["step_seconds"], histogram["bars"]) == (60, 60)
    assert {one["value"]: sum(one["records"]) for one in histogram["groups"]} == {"9": 1, "17": 1, "0": 1}
    assert {one["records"].index(1) for one in histogram["groups"]} == {3}  # 08:53
    rows = client.ask("SELECT timestamp, record_id FROM logs WHERE message = 'started'").json["rows"]
    time, record_id = rows[0][0].replace("+00:00", "Z"), rows[0][1]
    nearby = client.get(f"/logs/{record_id}/nearby?time={time}&service=payment&limit=1").json
    assert [one["message"] for one in (*nearby["before"], *nearby["after"])] == ["of no trace", HOSTILE]
    assert client.get(f"/logs/{record_id}/nearby?time={time}&service=web").json["after"] == []


def test_condition_is_one_expression(client: Client) -> None:
    """A condition that closes the parenthesis around it is refused, so that nothing can follow it."""
    for where in ("true) UNION ALL SELECT 'x', 1 WHERE (true", "true)--", "(SELECT 1)) OR ((true", "'", "1; SELECT 1"):
        for path in ("/fields/values?fields=[%22service_name%22]&", "/fields?", f"/histogram?{RANGE}&"):
            reply = client.get(f"{path}{urlencode({'table': 'spans', 'where': where})}")
            assert (reply.status, reply.json["error"]["code"]) == (400, "bad_query"), where


def test_batch(client: Client, service: QueryService) -> None:
    """Results come in the order of the questions; a wrong one has its error, and others are answered."""
    questions: list[dict[str, Any]] = [
        {"sql": "SELECT count(*) AS n FROM logs WHERE severity_number >= $1", "parameters": [1]},
        {"sql": "SELECT nothing"},
        {"sql": "SELECT service_name FROM spans GROUP BY 1 ORDER BY 1", "limit": 2},
    ]
    reply = send_batch(client, questions)
    schemas = {"components": {"schemas": build_description()["components"]["schemas"]}}
    Draft202012Validator({"$ref": "#/components/schemas/ResultsDocument", **schemas}).validate(reply.json)
    first, second, third = reply.json["results"]
    assert (first["pieces"], third["pieces"]) == ([[[3]]], [[["mailer", "payment"]]])
    assert (second["error"]["code"], third["statistics"]["truncated"]) == ("bad_query", True)
    with serving(service, OpenGuard(OTHER)) as other:
        results = send_batch(other, questions).json["results"]
        assert results[2]["pieces"] == [[["vault"]]]
    refusals: tuple[tuple[list[dict[str, Any]], str], ...] = (
        ([], "questions is"),
        (questions * 4, "1 to 10"),
        ([{"sql": "SELECT 1", "format": "csv"}], "expected columns"),
        ([{"sql": ""}], "questions is"),
    )
    for wrong, words in refusals:
        refused = send_batch(client, wrong)
        assert refused.status == 400
        assert words in refused.json["error"]["message"]


def send_batch(client: Client, questions: list[dict[str, Any]]) -> Reply:
    """Ask several questions in one request."""
    return client.send("POST", "/api/v1/query/batch", json.dumps({"questions": questions}).encode(), JSON)


def test_limits(lake: Lake, pool: WorkerPool) -> None:
    """The limits of an organization apply as to SQL."""
    config = QueryConfig(cache_bytes=0, limits=(LimitRule(organization=ACME, scan_bytes=1),))
    strict, guard = QueryService(lake, config, ports=Ports(engine=pool)), OpenGuard(ACME)
    with serving(strict, guard, first=explore_routes(strict, guard)) as limited:
        for path in (TRACE, f"{TRACE}/logs", "/services", "/services/edges", "/fields", f"/histogram?{RANGE}"):
            reply = limited.get(path)
            assert (reply.status, reply.json["error"]["limit"]) == (422, "scan_bytes"), path


def test_query_log(client: Client, log: list[QueryLogEntry]) -> None:
    """A request is in the query log, with its tables."""
    client.get(f"{TRACE}/decisions")
    entry = next(one for one in reversed(log) if one.sql.startswith("decisions"))
    assert entry.sql == f"decisions trace_id={CHECKOUT.hex()}"
    assert entry.tables == ("trace_decisions", "open_traces")
    assert entry.organization == ACME
