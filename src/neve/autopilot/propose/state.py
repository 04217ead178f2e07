"""What became of a proposal, judged from what a forge knows: open, approved, rejected or stale, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from neve.autopilot.propose.port import ForgeError, StaleProposal

if TYPE_CHECKING:
    from neve.autopilot.layout import Layout
    from neve.autopilot.propose.port import Change, Seen

Course = Literal["open", "reopen", "refresh", "leave"]


class State(StrEnum):
    """What became of a proposal."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    STALE = "stale"


@dataclass(frozen=True)
class Verdict:
    """A state, and why."""

    state: State
    reason: str
    is_merged: bool = False  # the default branch has it


def judge(change: Change, seen: Seen, *, approvals: int, current: Layout | None = None) -> Verdict:
    """The state of a change; `current` is the table's own layout, where somebody looked.

    `approvals` is how many reviews approve a change that is not merged; with 0, only a merge does.
    """
    if seen.status == "missing" and not change.is_after(seen.default_text):
        raise ForgeError(f"the proposal {change.id} of {change.table} was never made", hint="neve autopilot propose")
    if seen.status == "closed" and not seen.stale:
        return Verdict(State.REJECTED, "it was closed without a merge")
    stale = stale_reason(change, seen, current)
    if stale:
        return Verdict(State.STALE, stale)
    if change.is_after(seen.default_text):
        return Verdict(State.APPROVED, f"{seen.default_branch} has the new spec", is_merged=True)
    if seen.status == "merged":
        return Verdict(State.REJECTED, f"it was merged, and then taken back on {seen.default_branch}")
    return _reviewed(seen, approvals)


def stale_reason(change: Change, seen: Seen, current: Layout | None = None) -> str:
    """Why a change no longer fits; empty where it does."""
    if seen.stale:
        return "it was marked as stale"
    if current is not None and current not in (change.before, change.after):
        return f"the table has moved on: it is {current}, expected {change.before}"
    if not (change.is_before(seen.default_text) or change.is_after(seen.default_text)):
        return f"the spec on {seen.default_branch} has moved on: it is not the layout that the proposal starts from"
    if seen.status == "open" and not change.is_after(seen.default_text) and not change.is_after(seen.branch_text):
        return "the spec on its branch was changed by others: it is not the layout that was proven"
    return ""


def course_of(change: Change, seen: Seen) -> Course:
    """What proposing a change takes; raises `StaleProposal` where it does not fit the default branch."""
    if change.is_after(seen.default_text):
        return "leave"
    if not change.is_before(seen.default_text):
        raise StaleProposal(
            f"the spec {change.path} on {seen.default_branch} is not the layout that the proposal {change.id} of "
            f"{change.table} starts from: {change.before}",
            hint="bring the spec to what the table is, or recommend again",
        )
    if seen.status == "open":
        return "refresh"
    if seen.status == "closed":
        if not seen.stale:
            return "leave"
        return "open" if seen.branch_text is None else "reopen"
    return "open"


def _reviewed(seen: Seen, approvals: int) -> Verdict:
    if seen.objections:
        return Verdict(State.OPEN, f"changes are asked for by {', '.join(seen.objections)}")
    if approvals and len(seen.approvals) >= approvals:
        return Verdict(State.APPROVED, f"approved by {', '.join(seen.approvals)}")
    needed = f"{len(seen.approvals)} of {approvals} approvals" if approvals else "it waits for a merge"
    return Verdict(State.OPEN, needed)
