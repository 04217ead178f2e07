"""What a forge is: a place that keeps specs in git, shows proposals to people, and knows what they decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from neve.autopilot.propose.spec import has_layout, with_layout
from neve.errors import NeveError

if TYPE_CHECKING:
    from neve.autopilot.layout import Layout

Status = Literal["missing", "open", "closed", "merged"]
STALE_MARK = "[stale] "


class ForgeError(NeveError):
    """Raised when a forge or git refuses, or can't be reached; `status` is that of HTTP, where there was one."""

    def __init__(self, message: str, *, hint: str | None = None, status: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class StaleProposal(NeveError):
    """Raised when a table has moved on since a proposal was made, so that it can't be proposed or merged."""


@dataclass(frozen=True)
class Change:
    """A proposal as a forge sees it: a file that changes on a branch, and words about it."""

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
        """Whether a file is what the change starts from; a table that has no file yet is."""
        return text is None or has_layout(text, self.table, self.before)

    def is_after(self, text: str | None) -> bool:
        """Whether a file is what the change leads to."""
        return has_layout(text, self.table, self.after)

    def applied(self, text: str | None) -> str:
        """A file with the change."""
        return with_layout(text, self.table, self.after)


@dataclass(frozen=True)
class Seen:
    """What a forge knows of a change; of several that were made of the same branch, the newest."""

    status: Status
    place: str  # an address, or a branch's name
    default_branch: str
    default_text: str | None  # the table's file there
    branch_text: str | None  # the table's file on the branch
    stale: bool = False
    approvals: tuple[str, ...] = ()  # who said yes to what is on the branch now
    objections: tuple[str, ...] = ()


@dataclass(frozen=True)
class Posted:
    """Where a change is to be seen now, and what was done to get it there."""

    branch: str
    place: str
    action: Literal["opened", "updated", "unchanged", "left"]
    patch: str = ""  # a file, where a forge makes one

    def as_document(self) -> dict[str, str]:
        """For --json."""
        return {"branch": self.branch, "place": self.place, "action": self.action, "patch": self.patch}


class Forge(Protocol):
    """A place for proposals; whatever it can't do is a `ForgeError`."""

    def propose(self, change: Change) -> Posted:
        """Bring a change before people. Again: what is there is updated; what they have rejected is left alone.

        Raises `StaleProposal` where the default branch has a file that is neither before nor after the change.
        """

    def look(self, change: Change) -> Seen:
        """What became of a change."""

    def merge(self, change: Change) -> None:
        """Merge a change that is open into the default branch, if the branch still is what was proposed."""

    def mark_stale(self, change: Change, reason: str) -> None:
        """Close a change that is open, and say that the table has moved on; nothing to do for others."""
