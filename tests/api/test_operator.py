"""Operators read tables in pages, the ledger and costs, and change layouts and simulations as jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from neve.app.operator.simulations import Simulations
from neve.autopilot.attempt import Attempt, AttemptDetails, Stage, Step
from neve.autopilot.history import History
from neve.autopilot.layout import Layout, PartField
from neve.autopilot.outcome import Outcome
from neve.autopilot.propose.proposal import CanaryLine, Proposal, Reduction, RejectedCandidate
from neve.compact.result import CompactResult
from neve.compact.result import History as Compactions
from neve.compact.run_proof import RunProof, RunProofs
from neve.jobs.job import JobState, Task
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from tests.api.operating import MISSING, error_of, send
from tests.api.test_query_openapi import check
from tests.query.lakes import ACME, NOW, logs

if TYPE_CHECKING:
    from neve.app.control import Control
    from tests.api.querying import Client

pytestmark = [pytest.mark.slow, pytest.mark.lake]

RUN = CompactResult(
    run_id="r1",
    table="telemetry.spans",
    started="",
    strategy="adaptive",
    reason="small files",
    seconds=2.0,
    health_before=61.0,
    health_after=99.0,
    planned=1,
    committed=1,
    conflicts=0,
    failed=0,
    unknown=0,
    not_begun=0,
    left_alone=3,
    cut=0,
    files_in=12,
    files_out=1,
    bytes_in=100,
    bytes_out=90,
    rows=5,
    duplicates=0,
    api_calls=14,
    dollars=0.25,
)
BEFORE, AFTER = (
    Layout((PartField("timestamp", "day"),)),
    Layout((PartField("timestamp", "day"),), sort=("service_name",)),
)
POLICIES = "policies:\n  - name: errors\n    type: error\n"


def get(operator: Client, path: str, model: str) -> Any:
    """Read a path, whose answer is as OpenAPI describes it."""
    reply = send(operator, "GET", path)
    assert reply.status == 200, reply.body
    check(model, reply.json)
    return reply.json


def test_partitions_come_by_pages_with_the_parts_of_their_health(operator: Client) -> None:
    """Least healthy first; the parts add up to the health; ids of snapshots are text."""
    whole = get(operator, "lake/tables/spans/partitions", "PartitionPage")
    assert whole["total"] == len(whole["partitions"]) > 1
    assert isinstance(whole["snapshot"], str)
    for one in whole["partitions"]:
        assert sum(one["parts"].values()) == pytest.approx(one["health"], abs=0.1)
    page = get(operator, "lake/tables/spans/partitions?offset=1&limit=1", "PartitionPage")
    assert page["partitions"] == whole["partitions"][1:2]


def test_the_plan_gives_a_reason_for_every_partition(operator: Client) -> None:
    """Groups, partitions that are left alone, and those that a limit cut make up the table."""
    left = get(operator, "lake/tables/spans/plan?part=left_alone", "PlanPage")
    assert (left["total"], left["part"]) == (len(left["lines"]), "left_alone")
    assert all(line["reason"] for line in left["lines"])
    groups = get(operator, "lake/tables/spans/plan", "PlanPage")
    assert groups["groups"] == groups["total"]
    assert error_of(send(operator, "GET", "lake/tables/spans/plan?part=all"))[:2] == (400, "bad_request")


def test_file_sizes_and_snapshots(control: Control, operator: Client) -> None:
    """The classes contain every file, and the newest snapshot comes first."""
    sizes = get(operator, "lake/tables/spans/sizes", "FileSizesReport")
    assert sum(one["files"] for one in sizes["classes"]) == control.reports.measure("spans").files
    assert [one["least"] for one in sizes["classes"]] == sorted(one["least"] for one in sizes["classes"])
    found = get(operator, "lake/tables/spans/snapshots?limit=1", "SnapshotPage")
    assert (found["total"], len(found["snapshots"])) == (2, 1)
    assert (found["snapshots"][0]["operation"], found["snapshots"][0]["rows"]) == ("test", 9)


def test_runs_have_rows_and_hashes_before_and_after(control: Control, operator: Client) -> None:
    """A run of an earlier release has no proof, and says so by nulls."""
    from dataclasses import replace

    proof = RunProof(5, 5, "ab", "ab", 1.5, 0.2, ("7",))
    new, old = replace(RUN, started="2026-03-02T00:00:00+00:00"), replace(RUN, run_id="r0", started="2026-03-01")
    for run in (new, old):
        Compactions(control.documents).add(run)
    RunProofs(control.documents).add(new, proof)
    first, second = get(operator, "lake/tables/spans/runs", "RunPage")["runs"]
    assert (first["rows_before"], first["hash_after"], first["equal"], first["estimated_dollars"]) == (
        5,
        "ab",
        True,
        0.2,
    )
    assert (second["id"], second["equal"], second["hash_before"]) == ("r0", None, None)


@pytest.mark.parametrize("page", ["partitions", "plan", "sizes", "snapshots", "runs"])
def test_a_table_that_does_not_exist(operator: Client, page: str) -> None:
    """Is not found, whatever its name contains."""
    for name in ("nothing", "..", "%00", "z" * 3000):
        assert error_of(send(operator, "GET", f"lake/tables/{name}/{page}"))[:2] == (404, "unknown_table")


def put_batch(control: Control, batch: str, records: int, duplicates: int) -> None:
    """Commit a batch of two log records that claims other counts."""
    decoded = decode(Signal.LOGS, [logs("a", "b").SerializeToString()], Intake(ACME, NOW))
    table = control.lake.table("logs")
    files = write_files(Target.of(table), pa.Table.from_batches([decoded.batch]))
    summary = {"neve.stream": "raw", "neve.records": str(records), "neve.duplicates": str(duplicates)}
    append_once(table, files, batch_id=batch, operation="ingest-stream", summary=summary)


def test_the_ledger_shows_a_batch_whose_sums_differ(control: Control, operator: Client) -> None:
    """Decoders and writers count apart: received must be stored, refused or left out."""
    put_batch(control, "raw:good", 2, 1)
    put_batch(control, "raw:lost", 3, 0)
    found = get(operator, "ledger", "LedgerPage")
    sums = {
        one["batch"]: (one["received"], one["stored"], one["resends"], one["difference"]) for one in found["batches"]
    }
    assert sums == {"raw:good": (3, 2, 1, 0), "raw:lost": (3, 2, 0, 1)}
    assert (found["sums"]["received"], found["sums"]["difference"]) == (6, 1)
    assert [(one["source"], one["batches"]) for one in found["days"]] == [("raw", 2)]
    wrong = get(operator, "ledger?wrong=true&source=raw", "LedgerPage")
    assert [one["batch"] for one in wrong["batches"]] == ["raw:lost"]
    assert get(operator, "ledger?source=files", "LedgerPage")["batches"] == []


def test_costs_by_task_table_and_day(control: Control, operator: Client) -> None:
    """Estimated and spent, with storage calls, and with what is not included."""
    from dataclasses import replace

    now = control.documents.now()
    run = replace(RUN, run_id="today", started=now.isoformat())
    Compactions(control.documents).add(run)
    RunProofs(control.documents).add(run, RunProof(1, 1, "a", "a", 1.0, 0.2))
    found = get(operator, "costs?days=1", "CostReport")
    [line] = [one for one in found["lines"] if one["task"] == "compact"]
    assert (line["table"], line["runs"], line["dollars"], line["estimated_dollars"]) == ("spans", 1, 0.25, 0.2)
    assert (line["calls"], found["calls"]) == (14, 14)
    assert any("Not included" in note for note in found["notes"])


def begin_attempt(control: Control, *stages: Stage) -> Attempt:
    """An attempt that has come to a stage."""
    history, now = History(control.documents), control.documents.now()
    attempt = Attempt("20260301-abc", "telemetry.spans", "sort", BEFORE, AFTER, (Step(Stage.RECOMMENDED, now, "sort"),))
    proposal = Proposal(
        id="p",
        table="telemetry.spans",
        kind="sort",
        before=BEFORE,
        after=AFTER,
        created=now,
        table_bytes=10,
        estimate=Reduction(40, 30, 50),
        cost_seconds=3.0,
        cost_dollars=0.1,
        payback_days=4.0,
        rollback_command="",
        reasons=("queries filter by service",),
        canary=(CanaryLine("q1", True, 100, 60, 1.0, 0.5, "SELECT ?"),),
        rejected=(RejectedCandidate("zorder", "costs more"),),
    )
    history.begin(attempt)
    document = AttemptDetails(proposal, Reduction(40, 30, 50), {}).as_document()
    for stage in stages:
        attempt = history.note("telemetry.spans", attempt.id, stage, f"reached {stage}", document)
    return attempt


@pytest.fixture
def no_attempts(control: Control) -> Any:
    """Attempts of one test are no concern of another."""
    yield
    for space in ("autopilot.attempts", "autopilot.reports", "autopilot.outcomes"):
        for key, _value in list(control.documents.entries(space)):
            control.documents.delete(space, key)


def test_an_attempt_is_shown_with_its_promise_and_approved(
    control: Control, operator: Client, no_attempts: None
) -> None:
    """Values of queries are hidden; the approval is a job of the table, with the reason."""
    attempt = begin_attempt(control, Stage.STAGED, Stage.CANARY)
    History(control.documents).deliver(
        Outcome("telemetry.spans", attempt.id, "sort", control.documents.now(), 40, 30, 35)
    )
    [line] = get(operator, "layouts", "AttemptsReport")["attempts"]
    assert (line["stage"], line["changes"], line["outcome"]["is_delivered"]) == ("canary", ["approve", "reject"], True)
    detail = get(operator, f"layouts/{attempt.id}", "AttemptDetail")
    assert (detail["promised"]["low_pct"], detail["canary"][0]["text"]) == (30, "SELECT ?")
    assert detail["rejected"] == [{"layout": "zorder", "reason": "costs more"}]
    body = {"table": "telemetry.spans", "reason": "reviewed"}
    job = send(operator, "POST", f"layouts/{attempt.id}/approve", body)
    assert (job.status, job.json["task"], job.json["window"]) == (202, "layout", f"approve:{attempt.id}")
    assert job.json["reason"] == "approved by anyone on this machine: reviewed"
    assert get(operator, f"layouts/{attempt.id}", "AttemptDetail")["job"]["id"] == job.json["id"]


def test_a_change_needs_the_name_of_the_table_and_the_right_stage(
    control: Control, operator: Client, no_attempts: None
) -> None:
    """Otherwise no job is requested."""
    attempt = begin_attempt(control, Stage.STAGED, Stage.CANARY, Stage.MERGED)
    wrong = send(operator, "POST", f"layouts/{attempt.id}/rollback", {"table": "telemetry.logs"})
    assert error_of(wrong)[:2] == (400, "bad_request")
    late = send(operator, "POST", f"layouts/{attempt.id}/approve", {"table": "telemetry.spans"})
    assert error_of(late)[:2] == (409, "conflict")
    unknown = send(operator, "POST", f"layouts/{MISSING}/reject", {"table": "telemetry.spans"})
    assert error_of(unknown)[:2] == (404, "not_found")
    assert control.jobs.list(task=Task.LAYOUT) == []


def test_a_policy_file_is_checked_with_all_of_its_problems(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the server's environment is in the answer, and a short text can't become a large document."""
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")

    def verify(text: str) -> Any:
        reply = send(operator, "POST", "sampling/check", {"policies": text})
        check("PolicyCheck", reply.json)
        assert "hunter2" not in reply.body.decode()
        return reply.json

    assert [one["name"] for one in verify(POLICIES)["policies"]] == ["errors"]
    assert verify("num_traces: 5\n" + POLICIES)["remarks"][0].startswith("num_traces has no effect here")
    bad = verify("policies:\n  - name: a\n    type: latency\n    latency: {treshold_ms: 1}\n  - type: nothing\n")
    assert (bad["valid"], len(bad["problems"]) >= 2) == (False, True)
    assert not verify("policies:\n  - name: ${env:SECRET_TOKEN}\n    type: ${SECRET_TOKEN}\n")["valid"]
    assert "alias" in verify("a: &a [x]\npolicies: [*a]\n")["problems"][0]
    assert "nested more than 64 levels" in verify("policies: " + "[" * 190_000)["problems"][0]
    assert not verify("\x00")["valid"]


def test_a_simulation_is_a_job_with_a_result(control: Control, operator: Client) -> None:
    """Requested over HTTP, run by a worker, and read again by its address."""
    body = {"policies": POLICIES, "since": "2025-01-01T00:00:00Z"}
    made = send(operator, "POST", "sampling/simulations", body)
    assert (made.status, made.json["state"]) == (202, "queued")
    check("SimulationReport", made.json)
    job = control.jobs.claim("host:1", [Task.SIMULATE], 60)
    assert job is not None
    steps: list[str] = []
    simulations = Simulations(control.settings, control.documents, control.jobs)
    words = simulations.run(job.window, control.lake, lambda step, _done, _total: steps.append(step))
    control.jobs.finish(job, words, {})
    found = get(operator, f"sampling/simulations/{made.json['id']}", "SimulationReport")
    result = found["result"]
    assert (found["state"], result["new"]["before"]["traces"], result["new"]["kept"]["traces"]) == ("done", 9, 0)
    assert isinstance(result["new"]["snapshot_id"], str)
    assert (words, "new: traces" in steps) == ("0 of 9 traces would be kept", True)
    assert get(operator, "sampling/simulations", "SimulationsDocument")["simulations"][0]["state"] == "done"


def test_a_simulation_is_cancelled_and_wrong_ones_are_refused(control: Control, operator: Client) -> None:
    """At most five wait at a time."""
    made = [send(operator, "POST", "sampling/simulations", {"policies": POLICIES}) for _ in range(6)]
    assert [one.status for one in made] == [202] * 5 + [409]
    gone = send(operator, "DELETE", f"sampling/simulations/{made[0].json['id']}")
    assert (gone.status, gone.json["state"]) == (202, "cancelled")
    assert control.jobs.list(states=(JobState.CANCELLED,), task=Task.SIMULATE)
    assert error_of(send(operator, "POST", "sampling/simulations", {"policies": "policies: 3"}))[:2] == (
        400,
        "bad_request",
    )
    assert error_of(send(operator, "GET", f"sampling/simulations/{MISSING}"))[:2] == (404, "not_found")


def test_the_policies_in_force_are_a_file_to_start_from(operator: Client) -> None:
    """The built-in ones as a file that is valid itself."""
    found = get(operator, "sampling/policies", "PolicyFileDocument")
    assert send(operator, "POST", "sampling/check", {"policies": found["policies"]}).json["valid"]


def test_a_reason_of_a_cancelled_job_is_kept(control: Control, operator: Client) -> None:
    """As its outcome; a reason of several lines is refused."""
    job = control.jobs.request(Task.COMPACT, "spans", reason="test")
    assert error_of(send(operator, "POST", f"jobs/{job.id}/cancel?reason=a%0Ab"))[:2] == (400, "bad_request")
    ended = send(operator, "POST", f"jobs/{job.id}/cancel?reason=wrong%20day")
    assert ended.json["outcome"] == "cancelled: wrong day"


def test_tasks_with_a_request_of_their_own_are_not_started_by_name(operator: Client) -> None:
    """They need a simulation, or an attempt."""
    for task in ("simulate", "layout"):
        status, _code, message = error_of(send(operator, "POST", "jobs", {"task": task}))
        assert (status, "expected one of compact, maintain, rollup, search, series, traces, autopilot" in message) == (
            400,
            True,
        )
