"""History of the autopilot in the state store: the one reader and writer of attempts, their reports and outcomes.

An attempt has a document with its steps, one for its branch, and one for the report of each step, because these may be
large.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from pydantic import TypeAdapter

from neve.autopilot.attempt import (
    ATTEMPT,
    BRANCH,
    DETAILS,
    FINAL_STAGES,
    STEP,
    Attempt,
    AttemptDetails,
    BranchState,
    Stage,
    StagedBranch,
    Step,
)
from neve.autopilot.outcome import Outcome
from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from neve.state.documents import Documents


ATTEMPTS = "autopilot.attempts"
BRANCHES = "autopilot.stages"
REPORTS = "autopilot.reports"
OUTCOMES = "autopilot.outcomes"
MAX_TRIES = 20  # attempts to add a step while other processes add theirs

_OUTCOME = TypeAdapter(Outcome)


class History:
    """History of the autopilot for all tables.

    Attempts and outcomes are never deleted, because later estimates learn from them.
    """

    def __init__(self, documents: Documents) -> None:
        self.documents = documents

    def begin(self, attempt: Attempt) -> None:
        """Store a new attempt.

        Raises `LakeError` if the table has an attempt with that id.
        """
        if not self.documents.swap(ATTEMPTS, _key(attempt.table, attempt.id), None, attempt.as_document()):
            raise LakeError(f"the autopilot's attempt {attempt.id} of {attempt.table} is already in the history")

    def note(
        self, table: str, attempt_id: str, stage: Stage, reason: str = "", report: Mapping[str, Any] | None = None
    ) -> Attempt:
        """Record that an attempt has reached a stage, and return it as it is then."""
        report_key = "" if report is None else f"{_key(table, attempt_id)}/{uuid4().hex}"
        if report is not None:  # first: a step whose report is missing would be worse than a report without a step
            self.documents.put(REPORTS, report_key, report)

        def add_step(document: dict[str, Any]) -> dict[str, Any]:
            step = Step(stage, self.documents.now(), reason, report_key)
            return {**document, "steps": [*document["steps"], STEP.dump_python(step, mode="json")]}

        return ATTEMPT.validate_python(self._update(_key(table, attempt_id), add_step))

    def attempt(self, table: str, attempt_id: str) -> Attempt | None:
        """Return an attempt, or None."""
        found = self.documents.get(ATTEMPTS, _key(table, attempt_id))
        return ATTEMPT.validate_python(found) if found is not None else None

    def attempts(self, table: str = "") -> list[Attempt]:
        """Return the attempts of a table, or of all tables, the newest first."""
        found = [ATTEMPT.validate_python(one) for _, one in self.documents.entries(ATTEMPTS, _prefix(table))]
        return sorted(found, key=lambda one: (one.started_at, one.id), reverse=True)

    def load(self, attempt: Attempt) -> Attempt:
        """Return an attempt with its newest details and its branch, as far as they are stored."""
        reports = (self.report(step) for step in reversed(attempt.steps))
        found = next((one for one in reports if one is not None and DETAILS in one), None)
        details = None if found is None else AttemptDetails.of(found)
        return replace(attempt, details=details, branch=self.find_branch(attempt.id))

    def report(self, step: Step) -> dict[str, Any] | None:
        """Return the report of a step, if it is stored."""
        return self.documents.get(REPORTS, step.report) if step.report else None

    def forget_reports(self, before: datetime) -> list[Attempt]:
        """Delete the reports of attempts that ended before a time, and return these attempts.

        The attempts with all their stages and reasons remain: they are small, and metrics count them. The branch of a
        merged attempt is needed as long as it may be rolled back.
        """
        over = [one for one in self.attempts() if one.stage in FINAL_STAGES and one.steps[-1].at < before]
        expired = [one for one in over if any(step.report for step in one.steps)]
        for one in expired:
            self._update(_key(one.table, one.id), _drop_reports)
            for step in one.steps:
                if step.report:
                    self.documents.delete(REPORTS, step.report)
            branch = self.find_branch(one.id)
            if branch is not None and branch.state is BranchState.ROLLED_BACK:
                self.documents.delete(BRANCHES, one.id)
        return expired

    def put_branch(self, branch: StagedBranch) -> StagedBranch:
        """Store the current state of the branch of an attempt."""
        self.documents.put(BRANCHES, branch.id, BRANCH.dump_python(branch, mode="json"))
        return branch

    def find_branch(self, attempt_id: str) -> StagedBranch | None:
        """Return the branch of an attempt, or None."""
        document = self.documents.get(BRANCHES, attempt_id)
        return None if document is None else BRANCH.validate_python(document)

    def get_branch(self, attempt_id: str) -> StagedBranch:
        """Return the branch of an attempt that must have one."""
        branch = self.find_branch(attempt_id)
        if branch is None:
            raise LakeError(f"unknown attempt {attempt_id!r}", hint="`neve autopilot history` lists attempts")
        return branch

    def deliver(self, outcome: Outcome) -> None:
        """Store the outcome of a layout; a new measurement replaces the previous one."""
        document = _OUTCOME.dump_python(outcome, mode="json")
        self.documents.put(OUTCOMES, _key(outcome.table, outcome.attempt_id), document)

    def outcomes(self, table: str = "") -> Iterator[Outcome]:
        """Yield the outcomes of a table, or of all tables, for `compute_calibration`."""
        for _, document in self.documents.entries(OUTCOMES, _prefix(table)):
            yield _OUTCOME.validate_python(document)

    def _update(self, key: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        for _ in range(MAX_TRIES):
            stored = self.documents.get(ATTEMPTS, key)
            if stored is None:
                raise LakeError(f"the autopilot's attempt {key} is not in the history", hint="neve autopilot history")
            changed = change(stored)
            if self.documents.swap(ATTEMPTS, key, stored, changed):
                return changed
        raise LakeError(f"can't update the autopilot's attempt {key}: concurrent changes in {MAX_TRIES} tries")


def _drop_reports(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "steps": [{**step, "report": ""} for step in document["steps"]]}


def _key(table: str, attempt_id: str) -> str:
    return f"{_prefix(table)}{quote(attempt_id, safe='')}"


def _prefix(table: str) -> str:
    return f"{quote(table, safe='')}/" if table else ""
