"""Forge: port to a git host that keeps specs and shows proposals, and the state of a proposal on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

from neve.autopilot.layout import replace_layout, spec_has_layout
from neve.errors import NeveError

if TYPE_CHECKING:
    from neve.autopilot.layout import Layout


ChangeStatus = Literal["missing", "open", "closed", "merged"]
STALE_MARK = "[stale] "


class ForgeError(NeveError):
    """Raised when a forge or git rejects a request or can't be reached; `status` is the HTTP status, if any."""

    def __init__(self, message: str, *, hint: str | None = None, status: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class StaleProposal(NeveError):
    """Raised when a table has changed since a proposal was made, so that it can't be proposed or merged."""


@dataclass(frozen=True)
class ProposedChange:
    """A proposal as a forge stores it: a file that changes on a branch, and a description."""

    id: str
    table: str
    branch: str
    path: str
    before: Layout
    after: Layout
    title: str
    message: str
    body: str

    def is_before(self, text: str | None) -> bool:
        """Return whether a file has the layout before the change; a table without a file counts as that."""
        return text is None or spec_has_layout(text, self.table, self.before)

    def is_after(self, text: str | None) -> bool:
        """Return whether a file has the layout after the change."""
        return spec_has_layout(text, self.table, self.after)

    def apply(self, text: str | None) -> str:
        """Return a file with the change applied."""
        return replace_layout(text, self.table, self.after)


@dataclass(frozen=True)
class ObservedChange:
    """State of a change on a forge; of several changes from the same branch, the newest."""

    status: ChangeStatus
    place: str  # a URL, or the name of a branch
    default_branch: str
    default_text: str | None  # the table's file on the default branch
    branch_text: str | None  # the table's file on the branch
    stale: bool = False
    approvals: tuple[str, ...] = ()  # reviewers who approved the current head of the branch
    objections: tuple[str, ...] = ()


@dataclass(frozen=True)
class PostedChange:
    """The location of a change, and the action that was done."""

    branch: str
    place: str
    action: Literal["opened", "updated", "unchanged", "left"]
    patch: str = ""  # a file, if the forge writes one

    def as_document(self) -> dict[str, str]:
        """Return the document for `--json`."""
        return {"branch": self.branch, "place": self.place, "action": self.action, "patch": self.patch}


class Forge(Protocol):
    """A git host for proposals; every failure is a `ForgeError`."""

    def propose(self, change: ProposedChange) -> PostedChange:
        """Propose a change for review; an existing proposal is updated, and a rejected one is left unchanged.

        Raises `StaleProposal` if the file on the default branch is neither before nor after the change.
        """

    def fetch_state(self, change: ProposedChange) -> ObservedChange:
        """Return the state of a change."""

    def merge(self, change: ProposedChange) -> None:
        """Merge an open change into the default branch, if the branch still has the proposed content."""

    def mark_stale(self, change: ProposedChange, reason: str) -> None:
        """Close an open change with the reason that the table has changed; do nothing for other changes."""


ProposeAction = Literal["open", "reopen", "refresh", "leave"]


class ProposalState(StrEnum):
    """State of a proposal."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    STALE = "stale"


@dataclass(frozen=True)
class Verdict:
    """A state and its reason."""

    state: ProposalState
    reason: str
    is_merged: bool = False  # the default branch has the change


def judge_change(
    change: ProposedChange, observed: ObservedChange, *, approvals: int, current: Layout | None = None
) -> Verdict:
    """Return the state of a change; `current` is the table's own layout, if it was read.

    `approvals` is the number of reviews that approve a change that is not merged. With 0, only a merge approves it.
    """
    if observed.status == "missing" and not change.is_after(observed.default_text):
        raise ForgeError(f"the proposal {change.id} of {change.table} does not exist", hint="neve autopilot propose")
    if observed.status == "closed" and not observed.stale:
        return Verdict(ProposalState.REJECTED, "closed without a merge")
    stale = find_stale_reason(change, observed, current)
    if stale:
        return Verdict(ProposalState.STALE, stale)
    if change.is_after(observed.default_text):
        return Verdict(ProposalState.APPROVED, f"{observed.default_branch} has the new spec", is_merged=True)
    if observed.status == "merged":
        return Verdict(ProposalState.REJECTED, f"merged, and then reverted on {observed.default_branch}")
    return _judge_reviews(observed, approvals)


def find_stale_reason(change: ProposedChange, observed: ObservedChange, current: Layout | None = None) -> str:
    """Return why a change no longer applies, or an empty text if it does."""
    if observed.stale:
        return "marked as stale"
    if current is not None and current not in (change.before, change.after):
        return f"the table has changed: it is {current}, expected {change.before}"
    if not (change.is_before(observed.default_text) or change.is_after(observed.default_text)):
        return f"the spec on {observed.default_branch} has changed: it is not the layout that the proposal starts from"
    if (
        observed.status == "open"
        and not change.is_after(observed.default_text)
        and not change.is_after(observed.branch_text)
    ):
        return "the spec on its branch was changed: it is not the tested layout"
    return ""


def choose_action(change: ProposedChange, observed: ObservedChange) -> ProposeAction:
    """Return the action that proposes a change.

    Raises `StaleProposal` if the change doesn't apply to the default branch.
    """
    if change.is_after(observed.default_text):
        return "leave"
    if not change.is_before(observed.default_text):
        raise StaleProposal(
            f"the spec {change.path} on {observed.default_branch} is not the layout that the proposal {change.id} of "
            f"{change.table} starts from: {change.before}",
            hint="set the spec to the layout of the table, or recommend again",
        )
    if observed.status == "open":
        return "refresh"
    if observed.status == "closed":
        if not observed.stale:
            return "leave"
        return "open" if observed.branch_text is None else "reopen"
    return "open"


def _judge_reviews(observed: ObservedChange, approvals: int) -> Verdict:
    if observed.objections:
        return Verdict(ProposalState.OPEN, f"changes requested by {', '.join(observed.objections)}")
    if approvals and len(observed.approvals) >= approvals:
        return Verdict(ProposalState.APPROVED, f"approved by {', '.join(observed.approvals)}")
    needed = f"{len(observed.approvals)} of {approvals} approvals" if approvals else "waiting for a merge"
    return Verdict(ProposalState.OPEN, needed)
