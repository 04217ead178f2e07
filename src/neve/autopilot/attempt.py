"""The record of one attempt to change a table's layout: its steps, its details and its branch.

`neve.autopilot.history` stores it. A step has a report of its own, and the details are in the newest report that has
them, so that a killed run continues with what the last finished step knew.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime  # noqa: TC003 - pydantic reads the annotation
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from neve.autopilot.layout import Layout  # noqa: TC001 - pydantic reads the annotation
from neve.autopilot.propose.proposal import Proposal, Reduction


class Stage(StrEnum):
    """Stage of an attempt."""

    RECOMMENDED = "recommended"
    STAGED = "staged"
    CANARY = "canary"
    PROPOSED = "proposed"
    MERGED = "merged"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"


OPEN_STAGES = (Stage.RECOMMENDED, Stage.STAGED, Stage.CANARY, Stage.PROPOSED)
FINAL_STAGES = (Stage.MERGED, Stage.ROLLED_BACK)


@dataclass(frozen=True)
class Step:
    """One stage that an attempt reached."""

    stage: Stage
    at: datetime
    reason: str = ""
    report: str = ""  # the key of the report; empty if none was stored


class BranchState(StrEnum):
    """State of the branch of an attempt."""

    STAGING = "staging"
    STAGED = "staged"
    MERGED = "merged"
    ROLLED_BACK = "rolled_back"


@dataclass(frozen=True)
class PreviousLayout:
    """The layout in a table's metadata before the attempt; a property that was not set is None."""

    schema_id: int
    spec_id: int
    order_id: int
    spec_ids: tuple[int, ...]  # all specs that the table had
    properties: dict[str, str | None]


@dataclass(frozen=True)
class SkippedFiles:
    """Files that are not rewritten, and the reason."""

    reason: str
    files: int
    bytes: int


@dataclass(frozen=True)
class StagedBranch:
    """Branch of an attempt, on which its layout is staged and from which it is merged.

    `base` is the snapshot that the branch was created at. `files` are the files to rewrite (None: all).
    """

    id: str
    table: str
    state: BranchState
    branch: str
    base: int
    layout: Layout
    properties: dict[str, str | None]
    before: PreviousLayout
    files: tuple[str, ...] | None = None
    left_out: tuple[SkippedFiles, ...] = ()  # files that are not in `files`, if the files that gain were selected
    sets_order: bool = False  # whether the table gets another sort order
    spec_id: int | None = None  # of the new layout, once the table has it
    schema_id: int | None = None  # of the schema with promoted columns, if one was staged
    order_id: int = 0  # the sort order id in staged files
    merged_from: int | None = None  # main before the merge, and after it
    merged_to: int | None = None
    message: str = ""  # of the user who merged it

    @property
    def new_spec(self) -> int | None:
        """The partition spec that was added for this attempt, if the table had none to use."""
        return self.spec_id if self.spec_id not in self.before.spec_ids else None

    def update(self, **changes: Any) -> StagedBranch:
        """Return the branch with some changes."""
        return replace(self, **changes)


DETAILS = "case"  # key in the report of a step


@dataclass(frozen=True)
class AttemptDetails:
    """Details of an attempt.

    `raw` is the estimate before past outcomes corrected it.
    """

    proposal: Proposal
    raw: Reduction
    properties: dict[str, str]

    def as_document(self) -> dict[str, Any]:
        """Return the document for the state store."""
        return {
            DETAILS: {
                "proposal": self.proposal.as_document(),
                "raw": asdict(self.raw),
                "properties": self.properties,
            }
        }

    @classmethod
    def of(cls, document: Any) -> AttemptDetails:
        """Return the details in a document."""
        found = document[DETAILS]
        return cls(Proposal.of(found["proposal"]), Reduction(**found["raw"]), dict(found["properties"]))


@dataclass(frozen=True)
class Attempt:
    """One attempted change of a table's layout.

    Lists of attempts have neither `details` nor `branch`, which may be large: `History.load` adds them.
    """

    id: str
    table: str
    kind: str
    before: Layout
    after: Layout
    steps: tuple[Step, ...]
    details: AttemptDetails | None = None
    branch: StagedBranch | None = None  # None before it is staged

    @property
    def started_at(self) -> datetime:
        """The time of the recommendation."""
        return self.steps[0].at

    @property
    def stage(self) -> Stage:
        """The current stage."""
        return self.steps[-1].stage

    def as_document(self) -> dict[str, Any]:
        """Return the document for the state store and for `--json`."""
        document: dict[str, Any] = ATTEMPT.dump_python(self, mode="json", exclude={"details", "branch"})
        return document


ATTEMPT = TypeAdapter(Attempt)
STEP = TypeAdapter(Step)
BRANCH = TypeAdapter(StagedBranch)
