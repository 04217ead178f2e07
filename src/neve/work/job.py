"""A job: one piece of work, from the moment that it is wanted to the moment that it is done or given up."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from neve.work.task import Task


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"  # waits for its turn, or for its next attempt
    RUNNING = "running"  # a worker is at it, and says so again and again
    DONE = "done"
    CANCELLED = "cancelled"  # by a person
    DEAD = "dead"  # every attempt failed: it waits for a person, who may replay it

    @property
    def is_open(self) -> bool:
        """Whether something is still to come of it by itself."""
        return self in {JobState.QUEUED, JobState.RUNNING}


@dataclass(frozen=True)
class Progress:
    """How far a running job is."""

    step: str = ""
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class Job:
    """One piece of work. Of open jobs there is one for each subject: what is wanted again meanwhile is folded into it.

    Ids grow with time. `again` says that its subject was wanted once more while it ran, so that it runs once more.
    """

    id: str
    task: Task
    table: str
    window: str
    reason: str
    created: datetime
    not_before: datetime
    state: JobState = JobState.QUEUED
    attempts: int = 0
    owner: str = ""
    until: datetime | None = None  # a worker that is silent until then is taken for dead
    started: datetime | None = None
    ended: datetime | None = None
    progress: Progress = field(default_factory=Progress)
    again: bool = False
    cancel: bool = False  # a person wants it to stop; its worker looks now and then
    outcome: str = ""  # what was done and why, in words
    result: Mapping[str, object] = field(default_factory=dict)
    error: str = ""
    hint: str = ""

    @property
    def subject(self) -> str:
        """What it is about; two jobs of one subject would do the same."""
        return f"{self.task}/{self.table}/{self.window}"
