"""What people do with a proposal, on each forge."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Protocol

from neve.autopilot.config import ProposeConfig
from neve.autopilot.propose.local_git import build_environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.autopilot.propose.hosted import Hosted


class People(Protocol):
    """Those who decide."""

    def merge(self, branch: str) -> None:
        """Say yes."""

    def close(self, branch: str) -> None:
        """Say no."""

    def write(self, branch: str, path: str, text: str) -> None:
        """Commit a file to a branch."""

    def file(self, branch: str, path: str) -> str | None:
        """What a file is on a branch."""

    def commits(self, branch: str) -> int:
        """How many commits a branch is ahead of main."""

    def proposals(self) -> list[str]:
        """The branches or pull requests that wait for them."""


class ForgePeople:
    """Those who use a forge."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted

    def merge(self, branch: str) -> None:
        """Press the button."""
        self._hosted.merge(self._hosted.pull(branch), self._hosted.branches[branch])

    def close(self, branch: str) -> None:
        """Press the other."""
        self._hosted.pull(branch).state = "closed"

    def write(self, branch: str, path: str, text: str) -> None:
        """Edit in the browser."""
        self._hosted.write(branch, path, text)

    def file(self, branch: str, path: str) -> str | None:
        """Look in the browser."""
        return self._hosted.files(branch).get(path)

    def commits(self, branch: str) -> int:
        """Count the commits that main does not have."""
        count, sha = 0, self._hosted.branches[branch]
        while sha and sha != self._hosted.branches["main"]:
            count, sha = count + 1, self._hosted.commits[sha].parent
        return count

    def proposals(self) -> list[str]:
        """The pull requests that are open."""
        return [one.branch for one in self._hosted.pulls if one.state == "open"]


class GitPeople:
    """Those who use git, in the work tree."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = build_environment(ProposeConfig(author_name="A Person", author_email="person@example.com"))

    def merge(self, branch: str) -> None:
        """As the README says."""
        self.git("merge", "--no-ff", "-m", "yes", branch)

    def close(self, branch: str) -> None:
        """As the README says."""
        self.git("branch", "-D", branch)

    def write(self, branch: str, path: str, text: str) -> None:
        """Check out, commit, and come back."""
        self.git("checkout", "-q", branch)
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        self.git("add", "--", path)
        self.git("commit", "-q", "-m", "by hand")
        self.git("checkout", "-q", "main")

    def file(self, branch: str, path: str) -> str | None:
        """Show it, if it is there."""
        return (
            self.git("show", f"{branch}:{path}") if path in self.git("ls-tree", "-r", "--name-only", branch) else None
        )

    def commits(self, branch: str) -> int:
        """Count the commits that main does not have."""
        return int(self.git("rev-list", "--count", f"main..{branch}"))

    def proposals(self) -> list[str]:
        """The branches of the autopilot that main does not have."""
        found = self.git("for-each-ref", "--no-merged", "main", "--format=%(refname:short)", "refs/heads/neve")
        return found.split()

    def git(self, *arguments: str) -> str:
        """A command of theirs."""
        done = subprocess.run(
            ["git", *arguments], cwd=self._folder, env=self._environment, capture_output=True, text=True, check=True
        )
        return done.stdout
