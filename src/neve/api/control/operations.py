"""The operations of control."""

from __future__ import annotations

from functools import partial

from neve.api.control.asked import HistoryAsked, JobsAsked, Pause, Start
from neve.api.control.documents import (
    HistoryDocument,
    JobsDocument,
    LakeTablesDocument,
    PartsDocument,
    PausesDocument,
    PoliciesAsked,
    PoliciesDocument,
)
from neve.api.query.operation import Operation
from neve.app.reports import JobReport, OutlookReport, PauseReport, StatusReport, TableDetail
from neve.lake.scopes import Scope

START = {"task": "compact", "table": "spans", "window": "2026-01-31", "reason": "before the demo"}
PAUSE = {"task": "maintain", "tables": "metrics_*", "reason": "migration", "until": "2026-02-01T06:00:00Z"}
POLICIES = {
    "policies": [
        {
            "name": "nightly",
            "tables": ["metrics_*"],
            "tasks": {"compact": {"cron": "30 2 * * *", "zone": "Europe/Zurich"}},
            "quiet": [{"start": "08:00", "end": "18:00", "days": ["mon", "tue", "wed", "thu", "fri"]}],
        }
    ]
}
WRONG = (400, "what was asked for is wrong: which key, its value, and what was expected")
NO_JOB = (404, "no such job")
IF_MATCH = {"If-Match": "the ETag of the policies that are changed, or * for whatever is there"}
VERSIONS = ((412, "the policies were changed since they were read"), (428, "If-Match is missing"))

_operation = partial(Operation, scope=Scope.ADMIN)
CONTROL_OPERATIONS = (
    _operation("get", "/status", "status", "How everything is now", StatusReport),
    _operation("get", "/lake/tables", "listLakeTables", "Every table with its health", LakeTablesDocument),
    _operation(
        "get",
        "/lake/tables/{name}",
        "describeLakeTable",
        "One table, its least healthy partitions, and what compaction would do to it",
        TableDetail,
        failures=((404, "no such table"),),
    ),
    _operation("get", "/plan", "plan", "What would be done next, and why", OutlookReport),
    _operation("get", "/jobs", "listJobs", "Jobs, the newest first", JobsDocument, failures=(WRONG,), query=JobsAsked),
    _operation(
        "post",
        "/jobs",
        "startJob",
        "Have something done now; folded into the open job of the same task, table and window, if there is one",
        JobReport,
        status=202,
        failures=(WRONG,),
        body=Start,
        example=START,
    ),
    _operation("get", "/jobs/{id}", "getJob", "One job", JobReport, failures=(NO_JOB,)),
    _operation(
        "post",
        "/jobs/{id}/cancel",
        "cancelJob",
        "End a job; one that runs ends when its worker sees it",
        JobReport,
        status=202,
        failures=(NO_JOB, (409, "it has ended already")),
    ),
    _operation(
        "post",
        "/jobs/{id}/replay",
        "replayJob",
        "Try a job again that is dead or cancelled",
        JobReport,
        status=202,
        failures=(NO_JOB, (409, "it is neither dead nor cancelled")),
    ),
    _operation("get", "/pauses", "listPauses", "What is held up", PausesDocument),
    _operation(
        "post",
        "/pauses",
        "pause",
        "Let no more work begin, of one task or of all, on tables of a pattern; what runs goes on",
        PauseReport,
        status=201,
        failures=(WRONG,),
        body=Pause,
        example=PAUSE,
    ),
    _operation("delete", "/pauses/{id}", "resume", "Let work go on", PauseReport, failures=((404, "no such pause"),)),
    _operation("get", "/parts", "listParts", "The parts of every `neve serve` on the lake", PartsDocument),
    _operation(
        "get",
        "/history",
        "history",
        "What was done, the newest first",
        HistoryDocument,
        failures=(WRONG,),
        query=HistoryAsked,
    ),
    _operation(
        "get", "/policies", "readPolicies", "The policies that hold; their version is the ETag", PoliciesDocument
    ),
    _operation(
        "put",
        "/policies",
        "writePolicies",
        "Let other policies hold, in the place of those of the files",
        PoliciesDocument,
        failures=(WRONG, *VERSIONS),
        body=PoliciesAsked,
        example=POLICIES,
        headers=IF_MATCH,
    ),
    _operation(
        "delete",
        "/policies",
        "clearPolicies",
        "Let the policies of the files hold again",
        PoliciesDocument,
        failures=(WRONG, *VERSIONS),
        headers=IF_MATCH,
    ),
)
