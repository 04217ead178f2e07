"""The query API over a real lake, through a real socket."""

from __future__ import annotations

import http.client
import io
import json
import os
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import structlog
from prometheus_client import REGISTRY

from neve.api.query import endpoint as door_module
from neve.errors import LakeError
from neve.query.config import LimitRule, QueryConfig
from neve.query.engine_errors import UNAVAILABLE
from neve.query.service import QueryService
from neve.receive.authentication import KeyGuard, OpenGuard
from neve.state.config import StateConfig
from neve.state.keys import Keys
from neve.state.scopes import Scope
from neve.state.store import StateStore
from tests.api.querying import QUERY, Client, serving
from tests.api.running import HOST, JSON
from tests.query.lakes import ACME, OTHER, make_lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.lake.lake import Lake
    from neve.query.request import QueryLogEntry

MB = 1024 * 1024
LONG = "SELECT sum(i * j) FROM range(10000000) a(i), range(1000000) b(j)"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """The lake of two organizations."""
    return make_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def service(lake: Lake) -> Iterator[QueryService]:
    """The service with the usual settings, but without a cache."""
    made = QueryService(lake, QueryConfig(cache_bytes=0))
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(service: QueryService) -> Iterator[Client]:
    """Asks it as acme."""
    with serving(service) as found:
        yield found


def until(reached: Callable[[], Any], seconds: float = 600) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_answer_has_columns_rows_and_statistics(client: Client, service: QueryService) -> None:
    """Ids as hex, times as RFC 3339, maps as objects, numbers that JSON lacks as text."""
    reply = client.ask(
        "SELECT span_id, timestamp, resource_attrs FROM spans WHERE trace_id = from_hex('01' || ?)",
        parameters=["01" * 15],
    )
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    document = reply.json
    assert document["columns"][0] == {"name": "span_id", "type": "binary"}
    assert document["rows"] == [["01" * 8, "2025-10-09T08:53:20.123456+00:00", {"service.name": "cart"}]]
    assert (document["statistics"]["rows"], document["statistics"]["engine"]) == (1, "duckdb")
    assert document["id"] == reply.headers["neve-query-id"]
    status = client.get(f"/queries/{document['id']}").json
    assert (status["state"], status["statistics"]["rows"], status["error"]) == ("done", 1, "")
    assert client.ask("SELECT value FROM metrics").json["rows"] == [["NaN"]]
    assert service.running(ACME) == ()


def test_every_form_gives_the_same_rows(client: Client) -> None:
    """By the question, and by the header."""
    sql = "SELECT service_name, timestamp, count(*) AS spans FROM spans GROUP BY ALL"
    expected = [{"service_name": "cart", "timestamp": "2025-10-09T08:53:20.123456+00:00", "spans": 8}]
    readers: dict[str, Callable[[bytes], list[dict[str, Any]]]] = {
        "application/x-ndjson": lambda body: [json.loads(line) for line in body.splitlines()],
        "text/csv": lambda body: pacsv.read_csv(io.BytesIO(body)).to_pylist(),
        "application/vnd.apache.parquet": lambda body: pq.read_table(io.BytesIO(body)).to_pylist(),
        "application/vnd.apache.arrow.stream": lambda body: pa.ipc.open_stream(body).read_all().to_pylist(),
    }
    for (kind, read), form in zip(readers.items(), ("jsonl", "csv", "parquet", "arrow"), strict=True):
        by_header, by_question = client.ask(sql, {"accept": kind}), client.ask(sql, format=form)
        for reply in (by_header, by_question):
            assert reply.headers["content-type"] == kind
            rows = read(reply.body)
            assert [{**row, "timestamp": str(row["timestamp"]).replace(" ", "T")} for row in rows] == expected


def test_bounds_of_the_question_hold(client: Client) -> None:
    """Times and limit; a result that was cut off says so."""
    count = "SELECT count(*) FROM spans"
    assert client.ask(count, since="2025-10-09T08:53:21Z").json["rows"] == [[0]]
    assert client.ask(count, until="2025-10-09T10:53:21+02:00").json["rows"] == [[8]]
    document = client.ask("SELECT span_id FROM spans", limit=3).json
    assert (len(document["rows"]), document["statistics"]["truncated"]) == (3, True)
    assert client.ask("SELECT $a + 1 AS n", parameters={"a": 2}).json["rows"] == [[3]]


def test_tables_are_described(client: Client) -> None:
    """Names, columns, types, comments and ranges; one that there is not is said, with those that there are."""
    names = [table["name"] for table in client.get("/tables").json["tables"]]
    assert {"spans", "logs", "metrics"} <= set(names)
    spans = client.get("/tables/spans").json
    assert spans["columns"][0]["name"] == "organization_id"
    assert {"name": "trace_id", "type": "binary", "comment": "16 bytes", "required": False} in spans["columns"]
    assert (spans["earliest"], spans["comment"]) == ("2025-10-09T08:53:20.123456Z", "one row per span")
    missing = client.get("/tables/nothing")
    assert (missing.status, missing.json["error"]["code"]) == (404, "unknown_table")


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELEC 1", "bad_query"),
        ("", "bad_request"),
        ("DROP TABLE spans", "bad_query"),
        ("SELECT * FROM nothing", "unknown_table"),
        ("SELECT nothing FROM spans", "bad_query"),
        ("SELECT * FROM read_parquet('/etc/passwd')", "bad_query"),
        ("SELECT 1; SELECT 2", "bad_query"),
        ("SELECT 'a'::INTEGER", "bad_query"),
        ("SELECT DATE '5000000-01-01'", "bad_query"),
    ],
)
def test_a_wrong_statement_is_the_senders(client: Client, sql: str, code: str) -> None:
    """With words, and with no rows."""
    reply = client.ask(sql)
    assert (reply.status, reply.json["error"]["code"]) == (400, code)
    assert set(reply.json) == {"error", "id"}
    assert reply.json["error"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not JSON: "),
        (b"{", "the body is not JSON: "),
        (b"[1]", "the body is [1], expected a JSON object"),
        (b"\xff", "the body is not valid UTF-8"),
        (b'{"sql": "\\ud800"}', "the body is not valid UTF-8"),
        (b'{"sql": 1}', "sql is 1, expected one read-only statement"),
        (b'{"sql": "SELECT 1", "sql": "SELECT 2"}', "the body is not JSON: a key occurs twice"),
        (b'{"limit": 1}', "sql is missing, expected one read-only statement"),
        (b'{"sql": "SELECT 1", "limt": 1}', 'unknown key "limt", expected one of sql, parameters, since'),
        (b'{"sql": "SELECT 1", "limit": "1"}', 'limit is "1", expected a maximum number of rows, from 1'),
        (b'{"sql": "SELECT 1", "limit": 0}', "limit is 0, expected a maximum number of rows, from 1"),
        (b'{"sql": "SELECT 1", "limit": true}', "limit is true, expected a maximum number of rows, from 1"),
        (b'{"sql": "SELECT 1", "timeout_seconds": NaN}', "the body is not JSON: NaN is not a number"),
        (b'{"sql": "SELECT 1", "timeout_seconds": -1}', "timeout_seconds is -1, expected a timeout in seconds"),
        (b'{"sql": "SELECT 1", "partial": "yes"}', 'partial is "yes", expected a boolean'),
        (b'{"sql": "SELECT 1", "parameters": [[1]]}', "parameters is [[1]], expected a list of values"),
        (b'{"sql": "SELECT 1", "since": "yesterday"}', 'since is "yesterday", expected an RFC 3339 time'),
        (b'{"sql": "SELECT 1", "since": "2026-01-01T00:00:00"}', "since is"),
        (b'{"sql": "SELECT 1", "since": "2026-02-30T00:00:00Z"}', "since is"),
        (b'{"sql": "SELECT 1", "until": "0001-01-01T00:00:00+23:59"}', "until is"),
        (b'{"sql": "SELECT 1", "until": 5}', "until is 5, expected an RFC 3339 time"),
        (b'{"sql": "SELECT 1", "format": "xml"}', 'format is "xml", expected one of json, jsonl'),
        (b"[" * 100_000, "the body is nested too deeply"),
        (b'{"sql": ' + b"1" * 10_000 + b"}", "the body is not JSON: "),
    ],
)
def test_a_wrong_body_is_said_by_its_key(client: Client, body: bytes, message: str) -> None:
    """The key, the value, and what was expected."""
    reply = client.send("POST", QUERY, body, JSON)
    assert (reply.status, reply.json["error"]["code"]) == (400, "bad_request")
    assert reply.json["error"]["message"].startswith(message)


def test_a_key_that_is_nearly_right_is_hinted_at(client: Client) -> None:
    """The one that was meant."""
    assert client.ask("SELECT 1", limt=1).json["error"]["hint"] == "did you mean 'limit'?"


def test_methods_types_and_paths_are_checked(client: Client) -> None:
    """Each with its status, as JSON."""
    typed = {"content-type": "text/plain"}
    packed = JSON | {"content-encoding": "gzip"}
    replies = [
        (client.send("GET", QUERY), 405, "method_not_allowed"),
        (client.send("PUT", "/api/v1/tables", b"{}", JSON), 405, "method_not_allowed"),
        (client.send("OPTIONS", QUERY), 405, "method_not_allowed"),
        (client.send("POST", QUERY, b"{}", typed), 415, "unsupported_type"),
        (client.send("POST", QUERY, b"{}", packed), 415, "unsupported_type"),
        (client.send("POST", QUERY, b"{}"), 415, "unsupported_type"),
        (client.ask("SELECT 1", {"accept": "text/html"}), 406, "not_acceptable"),
        (client.ask("x" * 1_000_001), 413, "too_large"),
        (client.get("/nothing"), 404, "not_found"),
        (client.get(""), 404, "not_found"),
        (client.get("/queries/00"), 404, "unknown_query"),
    ]
    for reply, status, code in replies:
        assert (reply.status, reply.json["error"]["code"]) == (status, code)
        assert reply.headers["content-type"] == "application/json"
        assert "access-control-allow-origin" not in reply.headers
    assert client.send("GET", QUERY).headers["allow"] == "POST"
    assert client.send("PUT", "/api/v1/queries/x").headers["allow"] == "GET, DELETE"
    head = client.send("HEAD", "/api/v1/tables")
    assert (head.status, head.body) == (200, b"")


def test_a_slow_body_is_not_waited_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends half of it is told."""
    monkeypatch.setattr(door_module, "BODY_SECONDS", 0.2)
    connection = http.client.HTTPConnection(HOST, client.port, timeout=600)
    connection.request("POST", QUERY, b"{", JSON | {"content-length": "100"})
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["error"]["code"]) == (408, "slow_body")
    connection.close()


def test_a_time_zone_before_the_statement(service: QueryService) -> None:
    """`SET TimeZone` in the same text is the zone of the statement, and precedes `timezone`."""
    with serving(service) as client:
        sql = "SET TimeZone = 'Asia/Tokyo'; SELECT hour(TIMESTAMPTZ '2026-01-01 00:00:00+00')"
        assert client.ask(sql).json["rows"] == [[9]]
        refused = client.ask("SET TimeZone = 'Nowhere'; SELECT 1")
        assert (refused.status, refused.json["error"]["code"]) == (400, "bad_query")


def test_keys_open_the_door_to_their_own_rows(service: QueryService, tmp_path: Path) -> None:
    """No key, a wrong one, one that may only write, and one that may read; queries of others are not there."""
    state = StateStore(StateConfig(path=str(tmp_path / "state.db")))
    keys = Keys(state)
    reader, both = keys.create(ACME, scopes=(Scope.READ,))[1], keys.create(OTHER)[1]
    writer = keys.create(ACME, scopes=(Scope.WRITE,))[1]
    sql = "SELECT count(*) FROM spans"
    with serving(service, KeyGuard(keys, 5.0)) as client:
        nobody = client.ask(sql)
        assert (nobody.status, nobody.json["error"]["code"]) == (401, "missing_key")
        assert nobody.headers["www-authenticate"] == "Bearer"
        assert client.ask(sql, {"x-api-key": "neve_x"}).status == 403
        refused = client.ask(sql, {"authorization": f"Bearer {writer}"})
        assert (refused.status, refused.json["error"]["code"]) == (403, "wrong_scope")
        assert refused.json["error"]["message"] == "this key lacks the scope `read` (it has: write)"
        assert "neve keys create --scope read" in refused.json["error"]["hint"]
        mine = client.ask(sql, {"authorization": f"Bearer {reader}"})
        theirs = client.ask(sql, {"x-api-key": both})
        assert (mine.json["rows"], theirs.json["rows"]) == ([[8]], [[1]])
        path = f"/queries/{mine.json['id']}"
        assert client.get(path, {"x-api-key": reader}).json["key_id"] == reader.split("_")[1]
        assert client.get(path, {"x-api-key": both}).status == 404
        assert client.send("DELETE", f"/api/v1{path}", headers={"x-api-key": both}).status == 404
        assert client.get(path).status == 401
        assert client.get("/tables").status == 401
        assert client.get("/openapi.json").status == 200
    state.close()


def test_limits_have_their_own_status(lake: Lake) -> None:
    """Too many at a time is worth coming back for; too much is not."""
    rules = [{"organization": ACME, "scan_bytes": 1}, {"organization": "rows", "rows": 5}]
    config = QueryConfig(concurrency=1, queue_seconds=0, limits=tuple(LimitRule.model_validate(one) for one in rules))
    service = QueryService(lake, config)
    with serving(service) as client:
        scan = client.ask("SELECT count(*) FROM spans")
        assert (scan.status, scan.json["error"]["code"]) == (422, "limit_exceeded")
        assert scan.json["error"]["limit"] == "scan_bytes"
        late = client.ask(LONG, timeout_seconds=0.3)
        assert (late.status, late.json["error"]["limit"]) == (422, "seconds")
        with client.sent("POST", QUERY, json.dumps({"sql": "SELECT * FROM range(50000000)"}).encode(), JSON):
            full = client.ask("SELECT 1")
            assert (full.status, full.json["error"]["limit"]) == (429, "concurrency")
            assert int(full.headers["retry-after"]) > 0
        until(lambda: client.ask("SELECT 1").status == 200)
    with serving(service, OpenGuard("rows")) as client:
        many = client.ask("SELECT * FROM range(6)")
        assert (many.status, many.json["error"]["limit"]) == (422, "rows")
        assert client.ask("SELECT * FROM range(5)").status == 200
    service.close()


def test_a_lake_that_is_away_is_said_without_its_address(
    service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks is told to come back, and not where the catalog is."""

    def away(*_: Any) -> None:
        raise LakeError("can't open postgresql://secret")

    monkeypatch.setattr(service, "start", away)
    monkeypatch.setattr(service, "tables", away)
    with serving(service) as client:
        for reply in (client.ask("SELECT 1"), client.get("/tables")):
            assert (reply.status, reply.json["error"]["code"]) == (503, "lake_unavailable")
            assert b"secret" not in reply.body
            assert "retry-after" in reply.headers


@pytest.mark.lake
def test_a_catalog_that_is_away_is_said(tmp_path: Path) -> None:
    """While a query is planned, and before the names of tables are known; that is worth coming back for."""
    lake = make_lake(tmp_path)
    service = QueryService(lake, QueryConfig(cache_bytes=0))
    with serving(service) as client:
        assert client.ask("SELECT count(*) FROM logs").status == 200
        (tmp_path / "catalog.db").rename(tmp_path / "elsewhere")
        (tmp_path / "catalog.db").mkdir()
        lake.catalog.engine.dispose()  # type: ignore[attr-defined]
        replies = (client.ask("SELECT count(*) FROM logs"), client.get("/tables"))
    for reply in replies:
        assert (reply.status, reply.json["error"]["code"]) == (503, "lake_unavailable")
        assert "retry-after" in reply.headers
    service.close()


@pytest.mark.lake
@pytest.mark.parametrize("ending", ["metadata.json", "avro"])
def test_metadata_that_is_away_is_said(tmp_path: Path, ending: str) -> None:
    """That a snapshot expired, or that a store is not mounted."""
    service = QueryService(make_lake(tmp_path), QueryConfig(cache_bytes=0))
    for path in (tmp_path / "warehouse").rglob(f"*{ending}"):
        path.unlink()
    with serving(service) as client:
        reply = client.ask("SELECT count(*) FROM logs")
    assert (reply.status, reply.json["error"]["code"]) == (503, "lake_unavailable")
    service.close()


def test_a_statement_that_is_too_deep_is_the_askers_matter(
    service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the stack ends."""

    def deep(*_: Any) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(service, "start", deep)
    with serving(service) as client:
        reply = client.ask("SELECT 1")
    assert (reply.status, reply.json["error"]["code"]) == (400, "bad_query")
    assert reply.json["error"]["message"] == "the statement is nested too deeply"


@pytest.mark.lake
def test_what_does_not_fit_into_memory_is_kept_from_others_and_bounded(tmp_path: Path) -> None:
    """In a folder of its own, for its owner only, that goes with the service."""
    spilled, mine = Path(tempfile.gettempdir()), f"neve-query-{os.getpid()}-*"
    before = set(spilled.glob(mine))
    service = QueryService(make_lake(tmp_path), QueryConfig(memory_limit="50MB", spill_bytes=1_000_000, spark_bytes=0))
    with serving(service) as client:
        reply = client.ask("SELECT hash(i) AS h, repeat('x', 50) AS r FROM range(3000000) AS t(i) ORDER BY h")
    assert (reply.status, reply.json["error"]["limit"]) == (422, "memory")
    [folder] = set(spilled.glob(mine)) - before
    assert folder.stat().st_mode & 0o777 == 0o700
    service.close()
    assert not folder.exists()


def test_what_is_asked_is_counted(client: Client) -> None:
    """By state, engine and cache; what was refused by its limit."""

    def counted(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(f"neve_query_{name}", labels) or 0

    done = {"state": "done", "engine": "duckdb", "cache": "off"}
    failed = {"state": "failed", "engine": "none", "cache": "none"}
    before = [
        counted("queries_total", **done),
        counted("queries_total", **failed),
        counted("refused_total", code="bad_query", limit="none"),
        counted("rows_total", engine="duckdb"),
        counted("seconds_count", engine="duckdb"),
        counted("read_bytes_total", engine="duckdb"),
    ]
    client.ask("SELECT * FROM spans")
    client.ask("SELEC")
    until(lambda: counted("rows_total", engine="duckdb") > before[3])  # counted last, after the last byte is sent
    after = [
        counted("queries_total", **done),
        counted("queries_total", **failed),
        counted("refused_total", code="bad_query", limit="none"),
        counted("rows_total", engine="duckdb"),
        counted("seconds_count", engine="duckdb"),
        counted("read_bytes_total", engine="duckdb"),
    ]
    grown = [new - old for new, old in zip(after, before, strict=True)]
    assert grown[:5] == [1, 1, 1, 8, 1]
    assert grown[5] > 1000


def test_a_large_result_needs_little_memory(client: Client) -> None:
    """Hundreds of megabytes go through; the process does not grow by them."""
    body = json.dumps({"sql": "SELECT i, i * 2 AS j, i::VARCHAR AS s FROM range(20000000) t(i)", "format": "arrow"})
    process, most, read = psutil.Process(), 0, 0
    with client.sent("POST", QUERY, body.encode(), JSON) as response:
        before = process.memory_info().rss
        while piece := response.read1(MB):
            read += len(piece)
            most = max(most, process.memory_info().rss)
    assert read > 400 * MB
    assert most - before < 250 * MB


@pytest.mark.long
def test_two_million_rows_are_json(client: Client) -> None:
    """Every one of them, in order, and the whole is JSON."""
    document = client.ask("SELECT i, 'n' || i AS s FROM range(2000000) t(i)").json
    assert document["statistics"]["rows"] == len(document["rows"]) == 2_000_000
    assert document["rows"][::400_000] == [[n, f"n{n}"] for n in range(0, 2_000_000, 400_000)]


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_a_client_that_goes_away_stops_the_engine(client: Client, service: QueryService, form: str) -> None:
    """While the engine still works on the first row."""
    connection = http.client.HTTPConnection(HOST, client.port)
    connection.request("POST", QUERY, json.dumps({"sql": LONG, "format": form}).encode(), JSON)
    until(lambda: service.running(ACME))
    [running] = service.running(ACME)
    time.sleep(0.3)
    connection.close()
    until(lambda: running.state == "cancelled")
    assert service.running(ACME) == ()


def test_a_query_that_runs_can_be_found_and_cancelled(client: Client, service: QueryService) -> None:
    """Before it has a row: its reader gets a status."""
    replies = []
    thread = threading.Thread(target=lambda: replies.append(client.ask(LONG)))
    thread.start()
    until(lambda: client.get("/queries").json["queries"])
    [found] = client.get("/queries").json["queries"]
    assert (found["sql"], found["state"]) == (LONG, "running")
    assert client.send("DELETE", f"/api/v1/queries/{found['id']}").status == 202
    thread.join(600)
    assert (replies[0].status, replies[0].json["error"]["code"]) == (409, "cancelled")
    assert client.get(f"/queries/{found['id']}").json["state"] == "cancelled"


def test_only_its_own_key_or_an_operator_cancels_a_query(service: QueryService, tmp_path: Path) -> None:
    """Other keys of the organization see it and may not end it."""
    state = StateStore(StateConfig(path=str(tmp_path / "state.db")))
    keys = Keys(state)
    mine, other = ({"x-api-key": keys.create(ACME, scopes=(Scope.READ,))[1]} for _ in range(2))
    operator = {"x-api-key": keys.create(ACME, scopes=(Scope.READ, Scope.ADMIN))[1]}
    with serving(service, KeyGuard(keys, 5.0)) as client:
        for allowed in (mine, operator):
            thread = threading.Thread(target=client.ask, args=(LONG, mine))
            thread.start()
            until(lambda: client.get("/queries", other).json["queries"])
            [found] = client.get("/queries", other).json["queries"]
            path = f"/api/v1/queries/{found['id']}"
            refused = client.send("DELETE", path, headers=other)
            assert (refused.status, refused.json["error"]["code"]) == (403, "wrong_owner")
            assert client.send("DELETE", path, headers=allowed).status == 202
            thread.join(600)
            assert client.get(path.removeprefix("/api/v1"), other).json["state"] == "cancelled"
    state.close()


def test_paths_of_the_lake_are_for_its_log(client: Client, service: QueryService, lake: Lake) -> None:
    """Files that went away are told of without their names: in the answer, in the list of queries and in their log."""
    file = next(iter(lake.table("spans").scan(row_filter=f"organization_id = '{ACME}'").plan_files()))
    path = Path(file.file.file_path.removeprefix("file://"))
    hidden = path.with_suffix(".hidden")
    path.rename(hidden)
    try:
        with structlog.testing.capture_logs() as logged:
            reply = client.ask("SELECT * FROM spans")
    finally:
        hidden.rename(path)
    assert (reply.status, reply.json["error"]["code"]) == (503, "lake_unavailable")
    shown = client.get(f"/queries/{reply.headers['neve-query-id']}")
    assert shown.json["error"] == UNAVAILABLE
    for body in (reply.body, shown.body):
        assert path.name.encode() not in body
        assert str(lake.lake.warehouse).encode() not in body
    assert any(path.name in str(line) for line in logged)


def test_an_error_of_the_engine_behind_many_rows_is_told(client: Client) -> None:
    """JSON is whole and says so; other forms are cut off."""
    sql = "SELECT (CASE WHEN i = 1400000 THEN 'x' ELSE i::VARCHAR END)::INTEGER AS n FROM range(1500000) t(i)"
    document = client.ask(sql).json
    assert document["error"]["code"] == "bad_query"
    assert "Could not convert string 'x' to INT32" in document["error"]["message"]
    assert len(document["rows"]) >= 1_000_000
    assert client.get(f"/queries/{document['id']}").json["state"] == "failed"
    with pytest.raises(http.client.IncompleteRead):
        client.ask(sql, format="arrow")


@pytest.mark.long
def test_many_clients_leave_nothing_behind(lake: Lake) -> None:
    """Some read, some go away, some cancel: afterwards nothing runs and there is room for all."""
    ended: list[QueryLogEntry] = []
    service = QueryService(lake, QueryConfig(cache_bytes=0, concurrency=4, queue_seconds=30), log=ended.append)
    statements = [
        "SELECT * FROM spans",
        "SELECT * FROM range(3000000)",
        "SELECT nothing",
        "SELECT sum(i) FROM range(30000000) t(i)",
    ]
    with serving(service) as client:

        def behave(seed: int) -> None:
            draw = random.Random(seed)
            for _ in range(6):
                body = json.dumps({"sql": draw.choice(statements), "format": draw.choice(["json", "arrow", "csv"])})
                connection = http.client.HTTPConnection(HOST, client.port, timeout=600)
                connection.request("POST", QUERY, body.encode(), JSON)
                if draw.random() < 0.3:
                    time.sleep(draw.random() / 10)
                elif draw.random() < 0.5:
                    connection.getresponse().read1(1000)
                else:
                    for found in client.get("/queries").json["queries"][:1]:
                        client.send("DELETE", f"/api/v1/queries/{found['id']}")
                connection.close()

        threads = [threading.Thread(target=behave, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
        until(lambda: not service.running(ACME))
        replies = [client.ask("SELECT 1").status for _ in range(5)]
    assert replies == [200] * 5
    assert len(ended) == len({entry.id for entry in ended})
    assert {entry.state for entry in ended} <= {"done", "failed", "cancelled"}
    service.close()
