"""What the paths of control answer with: lists of reports."""

from typing import Any

from pydantic import Field

from neve.api.query.documents import Document
from neve.app.reports import JobReport, PastReport, PauseReport, ServePartReport, TableReport
from neve.work.policy import Policy


class LakeTablesDocument(Document):
    """The tables of the lake, of all organizations together."""

    tables: list[TableReport]


class JobsDocument(Document):
    """Jobs, the newest first."""

    jobs: list[JobReport]


class PausesDocument(Document):
    """What is held up."""

    pauses: list[PauseReport]


class PartsDocument(Document):
    """The parts of every `neve serve` on the lake."""

    parts: list[ServePartReport]


class HistoryDocument(Document):
    """What was done to the tables, the newest first."""

    runs: list[PastReport]


class PoliciesAsked(Document):
    """The policies that are to hold, in their order."""

    policies: list[Policy]


class PoliciesDocument(Document):
    """The policies that hold, as they were written, and where they come from; those that are built in come after."""

    source: str = Field(description="where they come from, in words")
    version: str = Field(description="what changes with every change of them: the ETag, and what `If-Match` names")
    policies: list[dict[str, Any]]
