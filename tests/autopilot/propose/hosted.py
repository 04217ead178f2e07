"""A git repository in memory with pull requests, for the servers that speak GitHub's and GitLab's API."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field


@dataclass
class Pull:
    """A pull or merge request."""

    number: int
    branch: str
    base: str
    title: str
    body: str
    state: str = "open"  # open, closed or merged
    fork: bool = False
    reviews: list[dict[str, object]] = field(default_factory=list)


@dataclass(frozen=True)
class Commit:
    """Files, and what they were before."""

    files: dict[str, str]
    parent: str
    message: str
    author: str


class Hosted:
    """Commits, branches and pull requests; what a forge refuses raises `ValueError`."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.commits: dict[str, Commit] = {}
        self.trees: dict[str, dict[str, str]] = {}
        self.pulls: list[Pull] = []
        self.branches: dict[str, str] = {}
        self.branches["main"] = self.commit({"README.md": "specs"}, "", "Begin", "somebody")

    def commit(self, files: dict[str, str], parent: str, message: str, author: str) -> str:
        """A commit; its name."""
        sha = f"{next(self._numbers):040x}"
        self.commits[sha] = Commit(files, parent, message, author)
        return sha

    def tree(self, base: dict[str, str], changed: dict[str, str]) -> str:
        """Files on top of others; the tree's name."""
        sha = f"{next(self._numbers):040x}"
        self.trees[sha] = {**base, **changed}
        return sha

    def files(self, branch: str) -> dict[str, str]:
        """The files of a branch; none where it is not there."""
        return self.commits[self.branches[branch]].files if branch in self.branches else {}

    def write(self, branch: str, path: str, text: str) -> None:
        """Somebody commits a file to a branch."""
        there = self.branches[branch]
        self.branches[branch] = self.commit({**self.files(branch), path: text}, there, "by hand", "somebody")

    def open_pull(self, branch: str, base: str, title: str, body: str) -> Pull:
        """A new pull request; there is one open for a branch at most."""
        if branch not in self.branches or base not in self.branches:
            raise ValueError("no such branch")
        if any(one.branch == branch and one.state == "open" and not one.fork for one in self.pulls):
            raise ValueError(f"A pull request already exists for {branch}")
        self.pulls.append(Pull(len(self.pulls) + 1, branch, base, title, body))
        return self.pulls[-1]

    def merge(self, pull: Pull, sha: str) -> None:
        """Merge one, if its branch is where the caller thinks."""
        if pull.state != "open":
            raise ValueError("not open")
        if self.branches[pull.branch] != sha:
            raise ValueError("head was modified")
        files = {**self.files(pull.base), **self.files(pull.branch)}
        self.branches[pull.base] = self.commit(files, self.branches[pull.base], "merge", "somebody")
        pull.state = "merged"

    def pull(self, branch: str) -> Pull:
        """The newest of a branch."""
        return [one for one in self.pulls if one.branch == branch and not one.fork][-1]
