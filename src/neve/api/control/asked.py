"""What operators ask for: keys of a path's query, and JSON objects of known keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from neve.api.query.question import Moment  # noqa: TC001 - pydantic reads it
from neve.api.query.strict import bad, checked, shown
from neve.work.job import JobState
from neve.work.task import Task

if TYPE_CHECKING:
    from starlette.requests import Request

Model = TypeVar("Model", bound=BaseModel)

LONGEST_NAME = 200
LONGEST_REASON = 500
TASKS = ", ".join(Task)
TASK_SCHEMA = {"type": "string", "enum": list(Task)}


def line(text: str) -> str:
    """Words in one line, which end up in logs and on terminals."""
    if not text.isprintable():
        raise ValueError("not printable")
    return text


Words = Annotated[str, AfterValidator(line)]
Chosen = Annotated[Task, Field(strict=False), WithJsonSchema(TASK_SCHEMA)]


class Asked(BaseModel):
    """A body: known keys, of the right kind."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Start(Asked):
    """A job that is wanted now."""

    task: Chosen = Field(description=f"one of {TASKS}")
    table: Words = Field(
        "", max_length=LONGEST_NAME, description="the table's name, at most 200 characters; none for autopilot"
    )
    window: Words = Field("", max_length=10, description="a day as YYYY-MM-DD, or nothing for all of the table")
    reason: Words = Field("", max_length=LONGEST_REASON, description="why, in one line of at most 500 characters")


class Pause(Asked):
    """Work that is to wait."""

    task: Chosen | None = Field(None, description=f"one of {TASKS}; null for all")
    tables: Words = Field(
        "*",
        min_length=1,
        max_length=LONGEST_NAME,
        description="a pattern of names as metrics_*, at most 200 characters",
    )
    reason: Words = Field("", max_length=LONGEST_REASON, description="why, in one line of at most 500 characters")
    until: Moment = Field(None, description="a time of RFC 3339 with its zone; null: until it is ended")


class FromQuery(BaseModel):
    """The part of an address behind `?`: texts, whatever they stand for."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobsAsked(FromQuery):
    """Which jobs are listed."""

    state: Annotated[JobState | None, WithJsonSchema({"type": "string", "enum": list(JobState)})] = Field(
        None, description=f"one of {', '.join(JobState)}"
    )
    task: Annotated[Task | None, WithJsonSchema(TASK_SCHEMA)] = Field(None, description=f"one of {TASKS}")
    table: Words | None = Field(None, max_length=LONGEST_NAME, description="the table's name")
    limit: int = Field(50, ge=1, le=1000, description="how many at most, from 1 to 1000")


class HistoryAsked(FromQuery):
    """What of the past is told."""

    table: Words | None = Field(None, max_length=LONGEST_NAME, description="the table's name")
    limit: int = Field(100, ge=1, le=1000, description="how many at most, from 1 to 1000")


def read_query(request: Request, model: type[Model]) -> Model:
    """What stands behind `?`; a key without a value was not given. Raises `Failure`."""
    given = [(name, value) for name, value in request.query_params.multi_items() if value]
    found = dict(given)
    if len(found) < len(given):
        twice = next(name for name, _value in given if sum(one == name for one, _ in given) > 1)
        raise bad(f"{shown(twice)} stands twice behind `?`")
    return checked(found, model)
