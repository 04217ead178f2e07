"""What operators are told of a lake over HTTP: tables, parts, plans, the past; all as it is described."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api.operating import error_of, send
from tests.api.test_query_openapi import check
from tests.app.control_lake import dead_job, done_job, running_job, some_parts

if TYPE_CHECKING:
    from neve.app.control import Control
    from tests.api.querying import Client

GETS = {
    "status": "StatusReport",
    "lake/tables": "LakeTablesDocument",
    "lake/tables/spans": "TableDetail",
    "plan": "OutlookReport",
    "jobs": "JobsDocument",
    "pauses": "PausesDocument",
    "parts": "PartsDocument",
    "history": "HistoryDocument",
    "policies": "PoliciesDocument",
}


@pytest.mark.slow
@pytest.mark.parametrize(("path", "schema"), GETS.items())
def test_answers_are_as_described(control: Control, operator: Client, path: str, schema: str) -> None:
    """With work in every state."""
    documents = control.documents
    jobs = running_job(documents), done_job(documents), dead_job(documents)
    some_parts(documents)
    control.pause(None, "*", by="me", reason="", until=None)
    reply = send(operator, "GET", path)
    assert (reply.status, reply.headers["cache-control"]) == (200, "no-store")
    check(schema, reply.json)
    for job in jobs:
        check("JobReport", send(operator, "GET", f"jobs/{job.id}").json)


def test_tables_are_told_with_their_health(operator: Client) -> None:
    """From metadata: rows of all organizations, and what compaction would do."""
    tables = {table["name"]: table for table in send(operator, "GET", "lake/tables").json["tables"]}
    assert (tables["spans"]["rows"], tables["spans"]["files"], tables["spans"]["error"]) == (9, 6, "")
    assert 0 <= tables["spans"]["health"] <= 100
    assert tables["metrics_1d"]["last_commit"] is None
    detail = send(operator, "GET", "lake/tables/spans").json
    assert {key: detail[key] for key in tables["spans"]} == tables["spans"]
    assert sum(one["files"] for one in detail["partitions"]) == 6
    assert detail["partitions_in_all"] == len(detail["partitions"])
    assert detail["plan"]["reason"]


@pytest.mark.parametrize("name", ["nothing", "telemetry.spans", "..%2F..%2Fetc", "%00", "a" * 5000, "%F0%9F%92%A5"])
def test_a_table_that_there_is_not(operator: Client, name: str) -> None:
    """Is said, however it is spelt."""
    status, code, _message = error_of(send(operator, "GET", f"lake/tables/{name}"))
    assert (status, code) in ((404, "unknown_table"), (404, "not_found"))


def test_the_past_is_told(control: Control, operator: Client) -> None:
    """Of jobs whose rooms remember nothing, and by table."""
    done = done_job(control.documents)
    [run] = send(operator, "GET", "history?table=metrics_1m").json["runs"]
    assert (run["what"], run["table"], run["words"]) == ("rollup", "metrics_1m", "12 rows in 3 windows")
    assert run["details"]["id"] == done.id
    assert send(operator, "GET", "history?table=nothing").json == {"runs": []}
    assert error_of(send(operator, "GET", "history?table=a%0Ab"))[0] == 400
