"""A job as the store keeps it, together with what is wanted of its subject after it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from neve.work.job import Job, JobState, Progress
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMES = ("created", "not_before", "until", "started", "ended")


@dataclass(frozen=True)
class Wanted:
    """That something is wanted of a subject: why, and from when on."""

    reason: str
    not_before: datetime


@dataclass(frozen=True)
class Record:
    """A job, and what was wanted of its subject since it started."""

    job: Job
    following: Wanted | None = None

    def changed(self, **fields: Any) -> Record:
        """With some fields of the job changed."""
        return Record(replace(self.job, **fields), self.following)

    def followed_by(self, wanted: Wanted | None) -> Record:
        """With something else to come after it, or nothing."""
        return Record(replace(self.job, again=wanted is not None), wanted)

    @property
    def document(self) -> dict[str, object]:
        """What the store keeps."""
        job = asdict(self.job)
        job.update((name, job[name].isoformat()) for name in TIMES if job[name] is not None)
        following = self.following and {
            "reason": self.following.reason,
            "not_before": self.following.not_before.isoformat(),
        }
        return {**job, "following": following}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Record:
        """From the store; keys that a newer release added mean nothing here."""
        fields = {name: document[name] for name in Job.__dataclass_fields__}
        fields.update((name, _moment(fields[name])) for name in TIMES)
        fields.update(
            task=Task(fields["task"]), state=JobState(fields["state"]), progress=Progress(**fields["progress"])
        )
        following = document["following"]
        wanted = following and Wanted(following["reason"], datetime.fromisoformat(following["not_before"]))
        return cls(Job(**fields), wanted)


def plain(result: Mapping[str, object]) -> dict[str, object]:
    """A result as every store keeps it: what JSON has no word for becomes text.

    >>> plain({"day": datetime(2026, 1, 31), "ratio": float("nan")})
    {'day': '2026-01-31 00:00:00', 'ratio': 'NaN'}
    """
    found: dict[str, object] = json.loads(json.dumps(dict(result), default=str), parse_constant=str)
    return found


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
