"""What does the work of a job, what it is told, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from neve.work.job import Job


@dataclass(frozen=True)
class Outcome:
    """What was done and why, in words, with the numbers for those who count."""

    words: str
    result: Mapping[str, object] = field(default_factory=dict)


class Report(Protocol):
    """How a handler and those who watch it talk to each other."""

    def progress(self, step: str, done: int, total: int) -> None:
        """Say how far it is; as often as one likes, for it is written now and then."""

    @property
    def cancelled(self) -> bool:
        """Whether to give up soon: a person wants that, the process is to end, or the job is another worker's now."""


Handler = Callable[[Job, Report], Outcome]
