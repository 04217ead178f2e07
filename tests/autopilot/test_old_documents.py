"""Documents of an attempt that an earlier release wrote, word for word: they open, and are stored as they were."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from neve.autopilot.attempt import AttemptDetails, BranchState, SkippedFiles, Stage
from neve.autopilot.history import History
from neve.autopilot.layout import Layout, PartField
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ID = "20260131020000-ab12cd"
KEY = f"telemetry.spans/{ID}"
BEFORE = """{"partition": [{"column": "organization_id", "transform": "identity"},
 {"column": "time", "transform": "day"}],
 "sort": ["trace_id"], "zorder": [], "promoted": [], "blooms": [], "target_file_bytes": null}"""
AFTER = """{"partition": [{"column": "organization_id", "transform": "identity"},
 {"column": "time", "transform": "day"}],
 "sort": [], "zorder": ["service_name", "time"], "promoted": [], "blooms": ["trace_id"], "target_file_bytes": null}"""
ATTEMPT = f"""{{"id": "{ID}", "table": "telemetry.spans", "kind": "zorder", "before": {BEFORE}, "after": {AFTER},
 "steps": [{{"stage": "recommended", "at": "2026-01-31T02:00:00Z", "reason": "because", "report": ""}},
 {{"stage": "recommended", "at": "2026-01-31T02:00:00Z", "reason": "in words", "report": "{KEY}/0a"}},
 {{"stage": "staged", "at": "2026-01-31T02:05:00Z", "reason": "2 files", "report": "{KEY}/0b"}}]}}"""
DETAILS = f"""{{"case": {{"proposal": {{"id": "df457989c88f", "table": "telemetry.spans", "kind": "zorder",
 "before": {BEFORE}, "after": {AFTER}, "created": "2026-01-31T02:00:00Z", "table_bytes": 5368709120,
 "estimate": {{"pct": 62.0, "low_pct": 55.5, "high_pct": 70.0}}, "cost_seconds": 90.0, "cost_dollars": 0.42,
 "payback_days": null, "rollback_command": "neve autopilot rollback {ID}", "measured": null, "canary": [
 {{"fingerprint": "f00d", "equal": true, "bytes_main": 900, "bytes_branch": 300, "seconds_main": 1.5,
 "seconds_branch": 0.5, "text": "SELECT a FROM t WHERE c = ?", "example": ""}}],
 "reasons": ["service_name is filtered in 61 % of the queries"],
 "rejected": [{{"layout": "sorted by name", "reason": "only 12 % less to scan"}}]}},
 "raw": {{"pct": 62.0, "low_pct": 55.5, "high_pct": 70.0}},
 "properties": {{"write.parquet.bloom-filter-enabled.column.trace_id": "true"}}}}}}"""
BRANCH = f"""{{"id": "{ID}", "table": "telemetry.spans", "state": "staged", "branch": "neve_autopilot_{ID}", "base": 11,
 "layout": {AFTER}, "properties": {{"write.target-file-size-bytes": "1000", "sort": null}},
 "before": {{"schema_id": 0, "spec_id": 1, "order_id": 0, "spec_ids": [0, 1], "properties": {{"sort": null}}}},
 "files": ["a.parquet", "b.parquet"], "left_out": [{{"reason": "not read", "files": 3, "bytes": 5000}}],
 "sets_order": true, "spec_id": 2, "schema_id": null, "order_id": 1, "merged_from": null, "merged_to": null,
 "message": ""}}"""
OUTCOME = f"""{{"table": "telemetry.spans", "attempt_id": "{ID}", "kind": "zorder", "at": "2026-01-31T03:00:00Z",
 "promised_pct": 62.0, "promised_low_pct": 55.5, "delivered_pct": 58.25}}"""
STORED = {
    ("autopilot.attempts", KEY): ATTEMPT,
    ("autopilot.reports", f"{KEY}/0a"): DETAILS,
    ("autopilot.reports", f"{KEY}/0b"): '{"files_before": 2}',
    ("autopilot.stages", ID): BRANCH,
    ("autopilot.outcomes", KEY): OUTCOME,
}


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[SqlDocuments]:
    """A state store with what the earlier release left."""
    found = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
    for (space, key), text in STORED.items():
        found.put(space, key, json.loads(text))
    yield found
    found.close()


def stored(documents: SqlDocuments) -> dict[tuple[str, str], Any]:
    """All documents of the attempt as they are now."""
    return {(space, key): documents.get(space, key) for space, key in STORED}


def test_an_old_attempt_opens_whole(documents: SqlDocuments) -> None:
    """Its steps, the newest details among its reports, its branch, and the outcome."""
    history = History(documents)
    [listed] = history.attempts("telemetry.spans")
    assert (listed.details, listed.branch) == (None, None)
    found = history.load(listed)
    assert [step.stage for step in found.steps] == [Stage.RECOMMENDED, Stage.RECOMMENDED, Stage.STAGED]
    assert found.before == Layout((PartField("organization_id", "identity"), PartField("time", "day")), ("trace_id",))
    assert found.details is not None
    assert found.details.proposal.canary[0].text == "SELECT a FROM t WHERE c = ?"
    assert found.details.properties == {"write.parquet.bloom-filter-enabled.column.trace_id": "true"}
    assert found.branch is not None
    assert (found.branch.state, found.branch.base, found.branch.new_spec) == (BranchState.STAGED, 11, 2)
    assert found.branch.left_out == (SkippedFiles("not read", 3, 5000),)
    assert [one.delivered_pct for one in history.outcomes()] == [58.25]


def test_an_old_attempt_is_written_as_it_was(documents: SqlDocuments) -> None:
    """Each document that is read and stored again is the same, so that two releases can share a store."""
    history = History(documents)
    found = history.load(history.attempts()[0])
    assert found.as_document() == json.loads(ATTEMPT)
    assert found.details is not None
    assert found.details.as_document() == json.loads(DETAILS)
    assert AttemptDetails.of(found.details.as_document()) == found.details
    assert found.branch is not None
    history.put_branch(found.branch)
    history.deliver(next(iter(history.outcomes())))
    assert stored(documents) == {place: json.loads(text) for place, text in STORED.items()}


def test_an_old_attempt_goes_on(documents: SqlDocuments) -> None:
    """A new step is appended to the old ones, and what is long over is forgotten but for its steps and its outcome."""
    history = History(documents)
    branch = history.get_branch(ID).update(state=BranchState.ROLLED_BACK)
    history.put_branch(branch)
    noted = history.note("telemetry.spans", ID, Stage.ROLLED_BACK, "by hand")
    assert [step.reason for step in noted.steps] == ["because", "in words", "2 files", "by hand"]
    assert [one.id for one in history.forget_reports(datetime.now(UTC) + timedelta(days=1))] == [ID]
    left = {place for place, document in stored(documents).items() if document is not None}
    assert left == {("autopilot.attempts", KEY), ("autopilot.outcomes", KEY)}
