"""Proposals as branches of a local git repository.

Merging a branch into the default branch approves it, deleting the branch rejects it; a proposal that is stale becomes a
tag `neve/stale/…` that says why. `refs/neve/proposed/…` remembers what was proposed, so that a branch that is gone is
told from one that never was. With a remote, all of this is looked up and done there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neve.autopilot.propose.names import proposal_path, word
from neve.autopilot.propose.port import ForgeError, Posted, Seen
from neve.autopilot.propose.repository import Repository
from neve.autopilot.propose.state import course_of

if TYPE_CHECKING:
    from neve.autopilot.propose.port import Change, Status
    from neve.autopilot.propose_config import ProposeConfig


class LocalGit:
    """A repository of specs in a folder; it is made where there is none."""

    def __init__(self, config: ProposeConfig) -> None:
        self._patches = config.patches
        self._repository = Repository(config)
        self._git = self._repository.git

    def propose(self, change: Change) -> Posted:
        """Put a commit on the change's branch, and write it as a patch."""
        seen = self.look(change)
        if course_of(change, seen) == "leave":
            return Posted(change.branch, seen.place, "left")
        files = {
            change.path: change.applied(seen.default_text),
            proposal_path(change.table, change.id): change.body,
        }
        there = self._repository.head(change.branch)
        if there and seen.status == "open" and all(self._git.file(there, path) == files[path] for path in files):
            return Posted(change.branch, seen.place, "unchanged", self._write_patch(change, there))
        commit = self._git.commit(self._repository.head(seen.default_branch), files, change.message)
        no_longer = {_stale_ref(change): None} if seen.stale else {}
        self._repository.move(change.branch, commit, {_kept_ref(change): commit, **no_longer})
        is_known = seen.status == "open" or seen.stale
        return Posted(change.branch, seen.place, "updated" if is_known else "opened", self._write_patch(change, commit))

    def look(self, change: Change) -> Seen:
        """What became of the branch."""
        self._repository.prepare()
        default = self._repository.default_branch()
        default_text = self._git.file(self._repository.ref(default), change.path)
        return Seen(
            status=self._status(change, default, default_text),
            place=change.branch,
            default_branch=default,
            default_text=default_text,
            branch_text=self._git.file(self._repository.ref(change.branch), change.path),
            stale=self._git.commit_of(_stale_ref(change)) is not None,
        )

    def merge(self, change: Change) -> None:
        """Merge the branch, if it is still what was proposed."""
        seen = self.look(change)
        if seen.status != "open" or not change.is_after(seen.branch_text):
            raise ForgeError(f"the branch {change.branch} is not there with what was proposed, it can't be merged")
        self._repository.merge(change.branch, change.title)

    def mark_stale(self, change: Change, reason: str) -> None:
        """Make a tag of the branch, which says why."""
        seen, commit = self.look(change), self._repository.head(change.branch)
        if commit is None or seen.status != "open":
            return
        tag = self._git.tag(commit, _stale_ref(change).removeprefix("refs/tags/"), f"stale: {reason}\n")
        self._repository.move(change.branch, None, {_stale_ref(change): tag})
        self._patch(change).unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing is open."""

    def _status(self, change: Change, default: str, default_text: str | None) -> Status:
        """How far it has come; what was squashed into the default branch has only its file there."""
        proposed = self._git.commit_of(_kept_ref(change))
        if proposed is None:
            return "missing"
        is_in = self._git.holds("merge-base", "--is-ancestor", proposed, self._repository.ref(default))
        if is_in or change.is_after(default_text):
            return "merged"
        return "closed" if self._repository.head(change.branch) is None else "open"

    def _patch(self, change: Change) -> Path:
        folder = Path(self._patches).expanduser().resolve() if self._patches else self._repository.private_folder()
        return folder / f"{word(change.table)}-{word(change.id)}.patch"

    def _write_patch(self, change: Change, commit: str) -> str:
        patch = self._patch(change)
        patch.parent.mkdir(parents=True, exist_ok=True)
        patch.write_text(self._git.run("format-patch", "-1", "--stdout", commit), encoding="utf-8")
        return str(patch)


def _kept_ref(change: Change) -> str:
    return f"refs/neve/proposed/{word(change.table)}/{word(change.id)}"


def _stale_ref(change: Change) -> str:
    return f"refs/tags/neve/stale/{word(change.table)}/{word(change.id)}"
