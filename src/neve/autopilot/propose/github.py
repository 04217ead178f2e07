"""Proposals as pull requests on GitHub, through its REST API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.autopilot.propose.body import stale_body
from neve.autopilot.propose.http import ForgeHttp, part
from neve.autopilot.propose.port import STALE_MARK, ForgeError, Posted, Seen
from neve.autopilot.propose.state import course_of

if TYPE_CHECKING:
    from neve.autopilot.propose.port import Change, Status
    from neve.autopilot.propose_config import ProposeConfig

VERSION = "2022-11-28"
RAW = "application/vnd.github.raw+json"
# Whoever can read a public repository can review in it; these belong to it.
INSIDERS = ("OWNER", "MEMBER", "COLLABORATOR")
DECISIONS = ("APPROVED", "CHANGES_REQUESTED", "DISMISSED")


class GitHub:
    """A repository of specs on GitHub."""

    def __init__(self, config: ProposeConfig) -> None:
        self._http = ForgeHttp(
            config,
            {
                "Authorization": f"Bearer {config.token.get_secret_value()}",
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": VERSION,
            },
        )
        self._name = config.repository
        self._owner, _, name = config.repository.partition("/")
        self._repo = f"/repos/{part(self._owner)}/{part(name)}"
        self._author = {"name": config.author_name, "email": config.author_email}
        self._default = config.default_branch

    def propose(self, change: Change) -> Posted:
        """Open or update the pull request of a change."""
        seen, pull = self._look(change)
        course = course_of(change, seen)
        if course == "leave":
            return Posted(change.branch, seen.place, "left")
        if course == "reopen":  # before the branch moves: afterwards GitHub would not have it
            self._http.json("PATCH", f"{self._repo}/pulls/{pull['number']}", {"state": "open"})
        pushed = self._push(change, seen)
        words = {"title": change.title, "body": change.body}
        if course == "open":
            made = self._http.json(
                "POST", f"{self._repo}/pulls", {**words, "head": change.branch, "base": seen.default_branch}
            )
            return Posted(change.branch, made["html_url"], "opened")
        if all(pull.get(key) == value for key, value in words.items()):
            return Posted(change.branch, seen.place, "updated" if pushed or course == "reopen" else "unchanged")
        self._http.json("PATCH", f"{self._repo}/pulls/{pull['number']}", words)
        return Posted(change.branch, seen.place, "updated")

    def look(self, change: Change) -> Seen:
        """What became of the pull request."""
        return self._look(change)[0]

    def merge(self, change: Change) -> None:
        """Merge the pull request, if its head is still what was proposed."""
        seen, pull = self._look(change)
        if seen.status != "open" or not change.is_after(seen.branch_text):
            raise ForgeError(f"the pull request {seen.place} is not open with what was proposed, it can't be merged")
        self._http.json_when_settled(
            "PUT",
            f"{self._repo}/pulls/{pull['number']}/merge",
            {"sha": pull["head"]["sha"], "commit_title": change.title, "commit_message": ""},
        )

    def mark_stale(self, change: Change, reason: str) -> None:
        """Close the pull request, with the reason in its title and text."""
        seen, pull = self._look(change)
        if seen.status == "open":
            self._http.json(
                "PATCH",
                f"{self._repo}/pulls/{pull['number']}",
                {
                    "state": "closed",
                    "title": STALE_MARK + change.title,
                    "body": stale_body(change.body, reason),
                },
            )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _look(self, change: Change) -> tuple[Seen, dict[str, Any]]:
        default = self._default or self._http.json("GET", self._repo)["default_branch"]
        pull = self._newest(change.branch, default)
        status = _status(pull)
        approvals, objections = self._reviews(pull) if status == "open" else ((), ())
        seen = Seen(
            status=status,
            place=pull.get("html_url", change.branch),
            default_branch=default,
            default_text=self._file(change.path, default),
            branch_text=self._file(change.path, change.branch),
            stale=str(pull.get("title", "")).startswith(STALE_MARK),
            approvals=approvals,
            objections=objections,
        )
        return seen, pull

    def _newest(self, branch: str, default: str) -> dict[str, Any]:
        """The newest pull request from our own branch; one from a fork may have a branch of the same name."""
        found = self._http.pages(
            f"{self._repo}/pulls", head=f"{self._owner}:{branch}", base=default, state="all", direction="desc"
        )
        ours = (pull for pull in found if pull["head"]["ref"] == branch and self._is_here(pull))
        return max(ours, key=lambda pull: int(pull["number"]), default={})

    def _is_here(self, pull: dict[str, Any]) -> bool:
        repository = pull["head"].get("repo") or {}  # null, where a fork is gone
        return str(repository.get("full_name", "")).lower() == self._name.lower()

    def _reviews(self, pull: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Who approved what is there now, and who objects; the last word of each counts."""
        last: dict[str, dict[str, Any]] = {}
        for review in self._http.pages(f"{self._repo}/pulls/{pull['number']}/reviews"):
            if review.get("user") and review["author_association"] in INSIDERS and review["state"] in DECISIONS:
                last[review["user"]["login"]] = review
        head = pull["head"]["sha"]
        approvals = [name for name, one in last.items() if one["state"] == "APPROVED" and one.get("commit_id") == head]
        return tuple(approvals), tuple(name for name, one in last.items() if one["state"] == "CHANGES_REQUESTED")

    def _file(self, path: str, branch: str) -> str | None:
        address = "/".join(map(part, path.split("/")))
        return self._http.text_or_none(f"{self._repo}/contents/{address}", RAW, ref=branch)

    def _push(self, change: Change, seen: Seen) -> bool:
        """One commit on top of the default branch; whether the branch was not like that already.

        A branch that has the file is left as it is: a new commit would take its approvals away.
        """
        text = change.applied(seen.default_text)
        if seen.status != "merged" and seen.branch_text == text:
            return False
        base = self._head(seen.default_branch)
        if base is None:
            raise ForgeError(f"the repository {self._name} has no branch {seen.default_branch}", hint="commit a file")
        tree = self._http.json(
            "POST",
            f"{self._repo}/git/trees",
            {
                "base_tree": self._http.json("GET", f"{self._repo}/git/commits/{base}")["tree"]["sha"],
                "tree": [{"path": change.path, "mode": "100644", "type": "blob", "content": text}],
            },
        )
        commit = self._http.json(
            "POST",
            f"{self._repo}/git/commits",
            {"message": change.message, "tree": tree["sha"], "parents": [base], "author": self._author},
        )
        self._move(change.branch, commit["sha"])
        return True

    def _move(self, branch: str, sha: str) -> None:
        if self._head(branch) is None:
            self._http.json("POST", f"{self._repo}/git/refs", {"ref": f"refs/heads/{branch}", "sha": sha})
        else:
            self._http.json("PATCH", f"{self._repo}/git/refs/heads/{_path(branch)}", {"sha": sha, "force": True})

    def _head(self, branch: str) -> str | None:
        found = self._http.json_or_none(f"{self._repo}/git/ref/heads/{_path(branch)}")
        return str(found["object"]["sha"]) if found else None


def _path(branch: str) -> str:
    return "/".join(map(part, branch.split("/")))


def _status(pull: dict[str, Any]) -> Status:
    if not pull:
        return "missing"
    if pull.get("merged_at"):
        return "merged"
    return "open" if pull["state"] == "open" else "closed"
