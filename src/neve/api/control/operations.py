"""Operations of the control API, and the models of their requests and responses."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from neve.api.query.models import (
    Document,
    UtcTime,
    bad_request,
    format_value,
    validate_document,
)
from neve.api.query.operations import Operation
from neve.app.reports import (
    JobReport,
    OutlookReport,
    PastReport,
    PauseReport,
    ServePartReport,
    StatusReport,
    TableDetail,
    TableReport,
)
from neve.jobs.job import SCHEDULED_TASKS, JobState, Task
from neve.jobs.policy import Policy  # noqa: TC001 - pydantic reads the annotation
from neve.state.scopes import Scope

if TYPE_CHECKING:
    from starlette.requests import Request


Model = TypeVar("Model", bound=BaseModel)

LONGEST_NAME = 200
LONGEST_REASON = 500
TASKS = ", ".join(Task)
TASK_SCHEMA = {"type": "string", "enum": list(Task)}
STARTABLE = ", ".join(SCHEDULED_TASKS)


def check_printable(text: str) -> str:
    """Return a text if it is one printable line, because it is written to logs and terminals."""
    if not text.isprintable():
        raise ValueError("not printable")
    return text


PrintableText = Annotated[str, AfterValidator(check_printable)]
TaskName = Annotated[Task, Field(strict=False), WithJsonSchema(TASK_SCHEMA)]


def check_startable(task: Task) -> Task:
    """Return a task that can be started by its name alone."""
    if task not in SCHEDULED_TASKS:
        raise ValueError("needs a request of its own")
    return task


StartableTask = Annotated[
    Task,
    Field(strict=False),
    AfterValidator(check_startable),
    WithJsonSchema({"type": "string", "enum": list(SCHEDULED_TASKS)}),
]


class ControlRequest(BaseModel):
    """A body: known keys, of the right kind."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Start(ControlRequest):
    """A job to start."""

    task: StartableTask = Field(description=f"one of {STARTABLE}")
    table: PrintableText = Field(
        "", max_length=LONGEST_NAME, description="a table name, at most 200 characters; omitted for autopilot"
    )
    window: PrintableText = Field("", max_length=10, description="a day as YYYY-MM-DD; empty for the whole table")
    reason: PrintableText = Field(
        "", max_length=LONGEST_REASON, description="a reason in one line of at most 500 characters"
    )


class Pause(ControlRequest):
    """A pause to create."""

    task: TaskName | None = Field(None, description=f"one of {TASKS}; null for all")
    tables: PrintableText = Field(
        "*",
        min_length=1,
        max_length=LONGEST_NAME,
        description="a pattern of table names such as metrics_*, at most 200 characters",
    )
    reason: PrintableText = Field(
        "", max_length=LONGEST_REASON, description="a reason in one line of at most 500 characters"
    )
    until: UtcTime = Field(None, description="an RFC 3339 time with a time zone; null: until the pause is ended")


class QueryParameters(BaseModel):
    """The part of an address behind `?`: texts, whatever they stand for."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobsQuery(QueryParameters):
    """Which jobs are listed."""

    state: Annotated[JobState | None, WithJsonSchema({"type": "string", "enum": list(JobState)})] = Field(
        None, description=f"one of {', '.join(JobState)}"
    )
    task: Annotated[Task | None, WithJsonSchema(TASK_SCHEMA)] = Field(None, description=f"one of {TASKS}")
    table: PrintableText | None = Field(None, max_length=LONGEST_NAME, description="the table's name")
    limit: int = Field(50, ge=1, le=1000, description="a maximum number of results, from 1 to 1000")


class ReasonQuery(QueryParameters):
    """The reason of a change, for the log."""

    reason: PrintableText = Field(
        "", max_length=LONGEST_REASON, description="a reason in one line of at most 500 characters"
    )


class HistoryQuery(QueryParameters):
    """What of the past is told."""

    table: PrintableText | None = Field(None, max_length=LONGEST_NAME, description="the table's name")
    limit: int = Field(100, ge=1, le=1000, description="a maximum number of results, from 1 to 1000")


def read_query(request: Request, model: type[Model]) -> Model:
    """Parse the query string; a key without a value counts as not given. Raises `Failure`."""
    given = [(name, value) for name, value in request.query_params.multi_items() if value]
    found = dict(given)
    if len(found) < len(given):
        twice = next(name for name, _value in given if sum(one == name for one, _ in given) > 1)
        raise bad_request(f"{format_value(twice)} is given twice in the query string")
    return validate_document(found, model)


class LakeTablesDocument(Document):
    """The tables of the lake, of all organizations together."""

    tables: list[TableReport]


class JobsDocument(Document):
    """Jobs, newest first."""

    jobs: list[JobReport]


class PausesDocument(Document):
    """Active pauses."""

    pauses: list[PauseReport]


class PartsDocument(Document):
    """Parts of every `neve serve` on the lake."""

    parts: list[ServePartReport]


class HistoryDocument(Document):
    """Finished work, newest first."""

    runs: list[PastReport]


class PoliciesAsked(Document):
    """Policies to apply, in their order."""

    policies: list[Policy]


class PoliciesDocument(Document):
    """Active policies as written, with their source. Built-in policies come after them."""

    source: str = Field(description="source of the policies")
    version: str = Field(description="version of the policies; it is the ETag, and the value for `If-Match`")
    policies: list[dict[str, Any]]


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
BAD_REQUEST = (400, "invalid request; the message has the key, its value and the expected values")
NO_JOB = (404, "no such job")
IF_MATCH = {"If-Match": "the ETag of the policies to replace, or * for any version"}
VERSIONS = ((412, "the policies were changed since they were read"), (428, "If-Match is missing"))

_operation = partial(Operation, scope=Scope.ADMIN)
CONTROL_OPERATIONS = (
    _operation("get", "/status", "status", "Status of the whole lake", StatusReport),
    _operation("get", "/lake/tables", "listLakeTables", "Tables with their health", LakeTablesDocument),
    _operation(
        "get",
        "/lake/tables/{name}",
        "describeLakeTable",
        "One table with its least healthy partitions and its compaction plan",
        TableDetail,
        failures=((404, "no such table"),),
    ),
    _operation("get", "/plan", "plan", "Planned work with reasons", OutlookReport),
    _operation(
        "get", "/jobs", "listJobs", "Jobs, newest first", JobsDocument, failures=(BAD_REQUEST,), query=JobsQuery
    ),
    _operation(
        "post",
        "/jobs",
        "startJob",
        "Start a job now; an open job of the same task, table and window is reused",
        JobReport,
        status=202,
        failures=(BAD_REQUEST,),
        body=Start,
        example=START,
    ),
    _operation("get", "/jobs/{id}", "getJob", "One job", JobReport, failures=(NO_JOB,)),
    _operation(
        "post",
        "/jobs/{id}/cancel",
        "cancelJob",
        "Cancel a job; a running job ends when its worker notices",
        JobReport,
        status=202,
        failures=(BAD_REQUEST, NO_JOB, (409, "the job has ended already")),
        query=ReasonQuery,
    ),
    _operation(
        "post",
        "/jobs/{id}/replay",
        "replayJob",
        "Retry a job that is dead or cancelled",
        JobReport,
        status=202,
        failures=(BAD_REQUEST, NO_JOB, (409, "the job is neither dead nor cancelled")),
        query=ReasonQuery,
    ),
    _operation("get", "/pauses", "listPauses", "Active pauses", PausesDocument),
    _operation(
        "post",
        "/pauses",
        "pause",
        "Pause one task or all tasks on tables that match a pattern; running jobs continue",
        PauseReport,
        status=201,
        failures=(BAD_REQUEST,),
        body=Pause,
        example=PAUSE,
    ),
    _operation("delete", "/pauses/{id}", "resume", "End a pause", PauseReport, failures=((404, "no such pause"),)),
    _operation("get", "/parts", "listParts", "Parts of every `neve serve` on the lake", PartsDocument),
    _operation(
        "get",
        "/history",
        "history",
        "Finished work, newest first",
        HistoryDocument,
        failures=(BAD_REQUEST,),
        query=HistoryQuery,
    ),
    _operation("get", "/policies", "readPolicies", "Active policies; their version is the ETag", PoliciesDocument),
    _operation(
        "put",
        "/policies",
        "writePolicies",
        "Replace the policies of the files by others",
        PoliciesDocument,
        failures=(BAD_REQUEST, *VERSIONS),
        body=PoliciesAsked,
        example=POLICIES,
        headers=IF_MATCH,
    ),
    _operation(
        "delete",
        "/policies",
        "clearPolicies",
        "Return to the policies of the files",
        PoliciesDocument,
        failures=(BAD_REQUEST, *VERSIONS),
        headers=IF_MATCH,
    ),
)
