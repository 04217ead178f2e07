"""Rows and documents for the screens of operators: rejected records, decisions, jobs, runs, attempts and costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.app.settings import load_settings
from neve.app.wiring import build_documents
from neve.autopilot.attempt import Attempt, AttemptDetails, Stage, Step
from neve.autopilot.history import History
from neve.autopilot.layout import Layout, PartField
from neve.autopilot.outcome import Outcome
from neve.autopilot.propose.proposal import CanaryLine, Proposal, Reduction, RejectedCandidate
from neve.compact.result import CompactResult
from neve.compact.result import History as Compactions
from neve.compact.run_proof import RunProof, RunProofs
from neve.errors import LakeError
from neve.jobs.job import Progress, Task
from neve.jobs.queue import JobQueue
from neve.jobs.transitions import Retry
from tests.api.own_rows import GOOD, put_decisions, put_rejected
from tests.page.demo_lake import ORGANIZATION

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.state.documents import Documents
    from tests.page.demo_lake import DemoLake

AT = datetime(2026, 2, 2, 10, 3, tzinfo=UTC)
HOSTILE = '<img src=x onerror="document.title=1">'
TABLE = "telemetry.spans"
PARTITION = (PartField("organization_id", "identity"), PartField("timestamp", "day"))
BEFORE, AFTER = Layout(PARTITION), Layout(PARTITION, sort=("service_name", "timestamp"))
LEASE_SECONDS = 600.0


@dataclass(frozen=True)
class Operated:
    """A server over the demo's lake whose callers may operate, and its state store."""

    server: str
    config: Path
    documents: Documents
    lake: Lake


def fill_tables(demo: DemoLake) -> None:
    """Commit rejected records and decisions, with markup in every text."""
    rejected = [
        {"source": "otlp", "position": 0, "payload": GOOD},
        {"position": 1, "payload": b"\xff\x00\x12<b>", "reason": "malformed_message", "detail": HOSTILE},
        *(
            {
                "position": number,
                "encoding": "csv",
                "payload": b"a,b\n=cmd()",
                "source": f"{HOSTILE}.csv",
                "reason": "bad_line",
                "detail": "line 7 has 2 columns, expected 3",
                "quarantined_at": AT - timedelta(seconds=number),
            }
            for number in range(2, 40)
        ),
    ]
    put_rejected(
        demo.lake, [{"organization_id": ORGANIZATION, "quarantined_at": AT, **row} for row in rejected], "raw:page-1"
    )
    put_rejected(demo.lake, [{"organization_id": "globex", "quarantined_at": AT, "detail": "secret"}], "raw:page-2")
    put_decisions(demo.lake, list(_list_decisions()), "tail:page")


def _list_decisions() -> Any:
    for number in range(240):
        kept = number % 12 == 0
        error = number % 24 == 0
        yield {
            "organization_id": ORGANIZATION,
            "decided_at": AT + timedelta(seconds=number % 170 - 85),
            "trace_id": number.to_bytes(16, "big"),
            "decision": "sampled" if kept else "not_sampled",
            "policy": ("errors" if error else "rest") if kept else None,
            "reason": ("policy errors: a span has an error" if error else "policy rest: 4.3 %")
            if kept
            else "no policy",
            "adjusted_count": (1.0 if error else 23.0) if kept else 0.0,
            "has_error": error,
            "span_count": 3 + number % 9,
            "service_name": ("frontend", "checkout", "cart", HOSTILE)[number % 4],
        }


RUN = CompactResult(
    run_id="run-2",
    table=TABLE,
    started="",
    strategy="adaptive",
    reason="48 files of 31 kB on average, against a target of 128 MB",
    seconds=4.2,
    health_before=61.5,
    health_after=99.0,
    planned=3,
    committed=3,
    conflicts=0,
    failed=0,
    unknown=0,
    not_begun=0,
    left_alone=12,
    cut=1,
    files_in=48,
    files_out=3,
    bytes_in=1_500_000,
    bytes_out=1_310_000,
    rows=21_000,
    duplicates=2,
    api_calls=107,
    dollars=0.00061,
)


def fill_state(documents: Documents) -> None:
    """Store jobs in every state, compactions, and two attempts of the autopilot."""
    now = documents.now()
    for back, run_id in ((0, "run-2"), (1, "run-1")):
        run = replace(RUN, run_id=run_id, started=(now - timedelta(days=back)).isoformat())
        Compactions(documents).add(run)
        digest = "8f3a90c2d4b17e65"
        RunProofs(documents).add(run, RunProof(21_000, 21_000, digest, digest, 3.8, 0.00055, ("1",)))
    jobs = JobQueue(documents)
    make_running(jobs, "spans")
    fail_search(documents)
    begin_attempt(documents, "20260201020000-1f2e3d", Stage.STAGED, Stage.CANARY, Stage.MERGED)
    History(documents).deliver(Outcome(TABLE, "20260201020000-1f2e3d", "sort", now, 41.0, 33.0, 38.5))


def fail_search(documents: Documents) -> None:
    """Let a job fail all its attempts."""
    died = JobQueue(documents, retry=Retry(attempts=1))
    wanted = died.request(Task.SEARCH, "logs", reason="12 new files")
    claimed = died.claim("host:1:2", [Task.SEARCH], LEASE_SECONDS, allowed=lambda job: _other(job.id, wanted.id))
    assert claimed is not None
    died.fail(claimed, LakeError("the index can't be read: checksum differs", hint="remove it and replay the job"))


def make_running(jobs: JobQueue, table: str) -> None:
    """Let a worker claim a compaction, and report that it is three of eight groups far."""
    wanted = jobs.request(Task.COMPACT, table, reason="48 files of 31 kB on average")
    job = jobs.claim("host:1:1", [Task.COMPACT], LEASE_SECONDS, allowed=lambda job: _other(job.id, wanted.id))
    assert job is not None
    jobs.renew(job, LEASE_SECONDS, Progress("groups", 3, 8))


def _other(job_id: str, wanted_id: str) -> str | None:
    return None if job_id == wanted_id else "another one"


def begin_attempt(documents: Documents, attempt_id: str, *stages: Stage) -> None:
    """Store an attempt that has come to a stage."""
    history, now = History(documents), documents.now()
    attempt = Attempt(attempt_id, TABLE, "sort", BEFORE, AFTER, (Step(Stage.RECOMMENDED, now, "sort by service_name"),))
    proposal = Proposal(
        id="f00d",
        table=TABLE,
        kind="sort",
        before=BEFORE,
        after=AFTER,
        created=now,
        table_bytes=1_310_000,
        estimate=Reduction(41.0, 33.0, 48.0),
        cost_seconds=12.0,
        cost_dollars=0.0021,
        payback_days=3.2,
        rollback_command=f"neve autopilot rollback {attempt_id}",
        measured=Reduction(39.0, 35.0, 43.0),
        canary=(CanaryLine("q-7f", True, 900_000, 540_000, 0.41, 0.22, "SELECT … WHERE service_name = ?"),),
        reasons=("71 % of the bytes are read by queries that filter by service_name",),
        rejected=(RejectedCandidate("z-ordered by service_name, operation_name", "costs more than it saves"),),
    )
    history.begin(attempt)
    document = AttemptDetails(proposal, Reduction(41.0, 33.0, 48.0), {}).as_document()
    for stage in stages:
        history.note(TABLE, attempt_id, stage, f"reached {stage.value}", document)


def open_documents(config: Path) -> Documents:
    """Open the state store of a configuration."""
    return build_documents(load_settings(str(config)))
