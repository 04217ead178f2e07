"""The history of the autopilot in the state store: every attempt with its stages, its reports, and its outcome."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from pydantic import TypeAdapter

from neve.autopilot.layout import Layout
from neve.autopilot.outcome import Outcome
from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from neve.lake.documents import Documents

ATTEMPTS = "autopilot.attempts"
REPORTS = "autopilot.reports"
OUTCOMES = "autopilot.outcomes"
MOST_TRIES = 20  # to add a step while others add theirs


class Stage(StrEnum):
    """How far an attempt has come."""

    RECOMMENDED = "recommended"
    STAGED = "staged"
    CANARY = "canary"
    PROPOSED = "proposed"
    MERGED = "merged"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"


OVER = (Stage.MERGED, Stage.ROLLED_BACK)


@dataclass(frozen=True)
class Step:
    """One stage that an attempt reached."""

    stage: Stage
    at: datetime
    reason: str = ""
    report: str = ""  # the key of what was found; empty where nothing was kept


@dataclass(frozen=True)
class Attempt:
    """One change of a table's layout that was tried."""

    id: str
    table: str
    kind: str
    before: Layout
    after: Layout
    steps: tuple[Step, ...]

    @property
    def started(self) -> datetime:
        """When it was recommended."""
        return self.steps[0].at

    @property
    def stage(self) -> Stage:
        """How far it has come."""
        return self.steps[-1].stage

    def as_document(self) -> dict[str, Any]:
        """For the store, and for --json."""
        document: dict[str, Any] = _ATTEMPT.dump_python(self, mode="json")
        return document


_ATTEMPT = TypeAdapter(Attempt)
_STEP = TypeAdapter(Step)
_OUTCOME = TypeAdapter(Outcome)


class History:
    """What the autopilot did, of all tables; attempts and outcomes stay, for later estimates learn from them."""

    def __init__(self, documents: "Documents") -> None:
        self._documents = documents

    def begin(self, attempt: Attempt) -> None:
        """A first step was taken; raises `LakeError` where the table has an attempt of that id."""
        if not self._documents.swap(ATTEMPTS, _key(attempt.table, attempt.id), None, attempt.as_document()):
            raise LakeError(f"the autopilot's attempt {attempt.id} of {attempt.table} is in the history already")

    def note(
        self, table: str, attempt_id: str, stage: Stage, reason: str = "", report: "Mapping[str, Any] | None" = None
    ) -> Step:
        """An attempt has reached a stage; what was found on the way is kept apart, for it may be large."""
        kept = "" if report is None else f"{_key(table, attempt_id)}/{uuid4().hex}"
        if report is not None:  # first: a step whose report is missing would be worse than a report without a step
            self._documents.put(REPORTS, kept, report)

        def added(document: dict[str, Any]) -> dict[str, Any]:
            step = Step(stage, self._documents.now(), reason, kept)
            return {**document, "steps": [*document["steps"], _STEP.dump_python(step, mode="json")]}

        steps = self._changed(_key(table, attempt_id), added)["steps"]
        return _STEP.validate_python(steps[-1])

    def attempt(self, table: str, attempt_id: str) -> Attempt | None:
        """An attempt, or none."""
        found = self._documents.get(ATTEMPTS, _key(table, attempt_id))
        return _ATTEMPT.validate_python(found) if found is not None else None

    def attempts(self, table: str = "") -> list[Attempt]:
        """Those of a table, or of all; the newest first."""
        found = [_ATTEMPT.validate_python(one) for _, one in self._documents.entries(ATTEMPTS, _prefix(table))]
        return sorted(found, key=lambda one: (one.started, one.id), reverse=True)

    def report(self, step: Step) -> dict[str, Any] | None:
        """What was found on the way to a step, where it was kept."""
        return self._documents.get(REPORTS, step.report) if step.report else None

    def forget_reports(self, before: datetime) -> list[Attempt]:
        """Forget what was found on the way of attempts that were over before a moment; which those are.

        That they were made, with every stage and its reason, stays: it is little, and metrics count it.
        """
        over = [one for one in self.attempts() if one.stage in OVER and one.steps[-1].at < before]
        forgotten = [one for one in over if any(step.report for step in one.steps)]
        for one in forgotten:
            self._changed(_key(one.table, one.id), _without_reports)
            for step in one.steps:
                if step.report:
                    self._documents.delete(REPORTS, step.report)
        return forgotten

    def deliver(self, outcome: Outcome) -> None:
        """What a layout delivered; measured again, the last measure counts."""
        document = _OUTCOME.dump_python(outcome, mode="json")
        self._documents.put(OUTCOMES, _key(outcome.table, outcome.attempt_id), document)

    def outcomes(self, table: str = "") -> "Iterator[Outcome]":
        """Those of a table, or of all, for `calibrated`."""
        for _, document in self._documents.entries(OUTCOMES, _prefix(table)):
            yield _OUTCOME.validate_python(document)

    def _changed(self, key: str, change: "Callable[[dict[str, Any]], dict[str, Any]]") -> dict[str, Any]:
        for _ in range(MOST_TRIES):
            there = self._documents.get(ATTEMPTS, key)
            if there is None:
                raise LakeError(f"the autopilot's attempt {key} is not in the history", hint="neve autopilot history")
            changed = change(there)
            if self._documents.swap(ATTEMPTS, key, there, changed):
                return changed
        raise LakeError(f"others kept changing the autopilot's attempt {key}, in {MOST_TRIES} tries")


def _without_reports(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "steps": [{**step, "report": ""} for step in document["steps"]]}


def _key(table: str, attempt_id: str) -> str:
    return f"{_prefix(table)}{quote(attempt_id, safe='')}"


def _prefix(table: str) -> str:
    return f"{quote(table, safe='')}/" if table else ""
