"""Job records in the state store: ids, documents, and decoding of documents that a newer release wrote.

While two releases share a store, the older one may not know all values: it skips such documents.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from neve.jobs.job import Job, JobState, Progress, Task
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


log = get_logger(__name__)

T = TypeVar("T")

_logged: set[tuple[str, str]] = set()


def decode_or_skip(of: Callable[[Mapping[str, Any]], T], document: Mapping[str, Any]) -> T | None:
    """Decode a document; return none if this release can't, which is logged once for each cause.

    Callers that read many documents skip such a document, and leave it to the newer release.
    """
    try:
        return of(document)
    except (KeyError, TypeError, ValueError) as error:
        cause = of.__qualname__, repr(error)
        if cause not in _logged:
            _logged.add(cause)
            log.warning("record skipped: a newer release may have written it", reader=cause[0], error=cause[1])
        return None


EPOCH = datetime.fromtimestamp(0, UTC)
TIME_DIGITS = 13  # hexadecimal, of microseconds: enough until the year 2112
RANDOM_DIGITS = 5  # to distinguish jobs of the same microsecond
DIGITS = TIME_DIGITS + RANDOM_DIGITS
_ID = re.compile(f"[0-9a-f]{{{DIGITS}}}")


def new_id(now: datetime) -> str:
    """Return a unique job id."""
    micros = (now - EPOCH) // timedelta(microseconds=1)
    return f"{micros:0{TIME_DIGITS}x}{secrets.randbits(4 * RANDOM_DIGITS):0{RANDOM_DIGITS}x}"


def is_id(text: str) -> bool:
    """Return whether a text has the format of a job id."""
    return _ID.fullmatch(text) is not None


def reverse_id(job_id: str) -> str:
    """Return a text that sorts in the reverse order of the ids.

    >>> reverse_id("000000000000000000") > reverse_id("000000000000000001")
    True
    """
    return f"{16**DIGITS - 1 - int(job_id, 16):0{DIGITS}x}"


TIME_FIELDS = ("created", "not_before", "until", "started", "ended")


@dataclass(frozen=True)
class JobRequest:
    """A request for a subject: its reason, and its earliest start."""

    reason: str
    not_before: datetime


@dataclass(frozen=True)
class JobRecord:
    """A job, and the requests for its subject since it started."""

    job: Job
    following: JobRequest | None = None

    def change(self, **fields: Any) -> JobRecord:
        """Return the record with some fields of the job changed."""
        return JobRecord(replace(self.job, **fields), self.following)

    def follow_with(self, wanted: JobRequest | None) -> JobRecord:
        """Return the record with another request after it, or none."""
        return JobRecord(replace(self.job, again=wanted is not None), wanted)

    @property
    def document(self) -> dict[str, object]:
        """Return the document for the store."""
        job = asdict(self.job)
        job.update((name, job[name].isoformat()) for name in TIME_FIELDS if job[name] is not None)
        following = self.following and {
            "reason": self.following.reason,
            "not_before": self.following.not_before.isoformat(),
        }
        return {**job, "following": following}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> JobRecord:
        """Decode a document of the store; keys of a newer release are ignored."""
        fields = {name: document[name] for name in Job.__dataclass_fields__}
        fields.update((name, _parse_time(fields[name])) for name in TIME_FIELDS)
        fields.update(
            task=Task(fields["task"]), state=JobState(fields["state"]), progress=Progress(**fields["progress"])
        )
        following = document["following"]
        wanted = following and JobRequest(following["reason"], datetime.fromisoformat(following["not_before"]))
        return cls(Job(**fields), wanted)


def to_json_values(result: Mapping[str, object]) -> dict[str, object]:
    """Return a result with values that every store accepts: a value without a JSON type becomes text.

    >>> to_json_values({"day": datetime(2026, 1, 31), "ratio": float("nan")})
    {'day': '2026-01-31 00:00:00', 'ratio': 'NaN'}
    """
    found: dict[str, object] = json.loads(json.dumps(dict(result), default=str), parse_constant=str)
    return found


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
