"""A job: its task, its state, its progress, and the errors of operations on jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from neve.errors import NeveError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime


class Task(StrEnum):
    """A task."""

    COMPACT = "compact"  # of a table, or of a window of it
    MAINTAIN = "maintain"  # of a table: every step of a round
    ROLLUP = "rollup"  # into a level; its table is the one that is written
    SEARCH = "search"  # of a table: its search index
    SERIES = "series"  # into a table of series, or of streams
    TRACES = "traces"  # into trace summaries, or the service map
    AUTOPILOT = "autopilot"  # of all tables together
    SIMULATE = "simulate"  # of sampling policies; its window is the id of the simulation
    LAYOUT = "layout"  # of a table: merge or roll back one attempt of the autopilot, which its window names

    @property
    def rank(self) -> int:
        """The number of tasks that are more urgent; tasks whose results are read first come first.

        >>> Task.ROLLUP.rank < Task.MAINTAIN.rank
        True
        """
        return URGENCY.index(self)

    @property
    def is_short(self) -> bool:
        """True if it takes seconds, except for the first time."""
        return self in {Task.ROLLUP, Task.SEARCH, Task.SERIES, Task.TRACES}


URGENCY = (
    *(Task.ROLLUP, Task.SERIES, Task.TRACES, Task.SEARCH, Task.LAYOUT, Task.SIMULATE),
    *(Task.COMPACT, Task.MAINTAIN, Task.AUTOPILOT),
)
# Each needs a document beside the job, which its own operation stores: no policy starts them.
REQUESTED_TASKS = (Task.SIMULATE, Task.LAYOUT)
SCHEDULED_TASKS = tuple(task for task in Task if task not in REQUESTED_TASKS)


def assign_tasks(tasks: Collection[Task], workers: int) -> list[tuple[Task, ...]]:
    """Return the tasks of each worker: all of them, except for one worker that runs short tasks only.

    So an urgent task never waits behind long ones.

    >>> [[task.value for task in tasks] for tasks in assign_tasks([Task.ROLLUP, Task.COMPACT], 2)]
    [['rollup', 'compact'], ['rollup']]
    """
    every, short = tuple(tasks), tuple(task for task in tasks if task.is_short)
    reserved = 1 if workers > 1 and short else 0
    return [*([every] * (workers - reserved)), *([short] * reserved)]


class WorkNotFound(NeveError):
    """Raised when there is no job, or no pause, with an id."""


class WorkStateError(NeveError):
    """Raised when the state of a job does not permit to cancel or replay it."""


class WorkUnreadable(WorkStateError):
    """Raised when the open job of a subject has values that only a newer release knows."""


class JobState(StrEnum):
    """The state of a job."""

    QUEUED = "queued"  # waits for its turn, or for its next attempt
    RUNNING = "running"  # a worker runs it, and sends heartbeats
    DONE = "done"
    CANCELLED = "cancelled"  # by an operator
    DEAD = "dead"  # every attempt failed: it waits for an operator, who may replay it

    @property
    def is_open(self) -> bool:
        """True if the job has not ended."""
        return self in {JobState.QUEUED, JobState.RUNNING}


@dataclass(frozen=True)
class Progress:
    """The progress of a running job."""

    step: str = ""
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class Job:
    """One unit of work. Each subject has at most one open job: further requests are merged into it.

    Ids grow with time. `again` is true if its subject was requested once more while it ran, so that it runs once more.
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
    until: datetime | None = None  # a worker without a heartbeat until then counts as dead
    started: datetime | None = None
    ended: datetime | None = None
    progress: Progress = field(default_factory=Progress)
    again: bool = False
    cancel: bool = False  # an operator requested its end; its worker checks this now and then
    outcome: str = ""  # description of the result and its reason
    result: Mapping[str, object] = field(default_factory=dict)
    error: str = ""
    hint: str = ""

    @property
    def subject(self) -> str:
        """The subject of the job; two jobs with the same subject would do the same work."""
        return f"{self.task}/{self.table}/{self.window}"
