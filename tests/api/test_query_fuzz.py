"""Whatever is sent, the answer is an answer: never a fault of the house."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from neve.api.query.errors import Failure
from neve.api.query.models import Question, read_question
from neve.query.config import QueryConfig
from neve.query.service import QueryService
from tests.api.querying import QUERY, Client, serving
from tests.api.running import JSON
from tests.query.lakes import make_lake

if TYPE_CHECKING:
    from collections.abc import Iterator

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()))
STATEMENTS = (
    "SELECT 1",
    "SELECT ?",
    "SELECT $a",
    "SELECT * FROM spans LIMIT ?",
    "SELECT count(*) FROM logs WHERE message = $1",
    "DESCRIBE spans",
    "SHOW TABLES",
    "EXPLAIN SELECT * FROM spans",
    "SELECT * FROM spans WHERE timestamp > ?",
    "SELECT 1 / 0",
    "WITH a AS (SELECT 1) SELECT * FROM a",
    "SELECT '' FROM spans",
)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "sql": st.sampled_from(STATEMENTS) | st.text() | anything,
        "parameters": st.lists(scalars, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "1", "b c"]), scalars, max_size=2)
        | anything,
        "since": st.datetimes().map(lambda moment: f"{moment.isoformat()}Z") | st.text() | anything,
        "until": st.datetimes().map(lambda moment: f"{moment.isoformat()}+01:00") | anything,
        "format": st.sampled_from(["json", "jsonl", "csv", "parquet", "arrow", "columns"]) | anything,
        "limit": st.integers(0, 2**60) | anything,
        "timeout_seconds": st.floats(0, 100_000) | anything,
        "partial": st.booleans() | anything,
        "fresh": st.booleans() | anything,
        "more": anything,
    },
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[Client]:
    """Asks a small lake."""
    service = QueryService(make_lake(tmp_path_factory.mktemp("lake")), QueryConfig(threads=1, timeout_seconds=10))
    with serving(service) as found:
        yield found
    service.close()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=bodies)
@example(body={"sql": "SELECT ?", "parameters": ["\ud800"]})
@example(body={"sql": "SELECT $1", "parameters": {"1": 10**400}})
@example(body={"sql": "SELECT * FROM spans", "since": "0001-01-01T00:00:00Z", "until": "9999-12-31T23:59:59.999999Z"})
@example(body={"sql": "SELECT * FROM spans", "limit": 2**53})
def test_no_question_is_a_fault_of_the_house(client: Client, body: dict[str, Any]) -> None:
    """It is answered, or the sender is told what is wrong with it."""
    reply = client.send("POST", QUERY, json.dumps(body).encode("utf-8", "surrogatepass"), JSON)
    assert reply.status in (200, 400, 422), reply.body
    if reply.status != 200:
        assert reply.json["error"]["message"]
    elif reply.headers["content-type"] == "application/json":
        assert "error" not in reply.json


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_bytes_are_a_fault_of_the_house(client: Client, data: bytes) -> None:
    """Nor is anything that is no JSON."""
    assert client.send("POST", QUERY, data, JSON).status == 400


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), max_size=30),
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS"]),
)
def test_no_path_is_a_fault_of_the_house(client: Client, path: str, method: str) -> None:
    """Whatever stands where a name or an id is expected."""
    for below in ("tables", "queries"):
        assert client.send(method, f"/api/v1/{below}/{path}", b"{}", JSON).status in (200, 404, 405)


@given(bodies)
def test_a_question_is_read_or_refused(body: dict[str, Any]) -> None:
    """What is read is what was written."""
    question = asked(body)
    if question is not None:
        assert question.sql == body["sql"]
        for moment in (question.since, question.until):
            assert moment is None or moment.utcoffset() is not None


def asked(body: dict[str, Any]) -> Question | None:
    """The question in a body; none for one that is refused."""
    try:
        return read_question(json.dumps(body).encode("utf-8", "surrogatepass"))
    except Failure:
        return None
