"""Proposals as pull requests on GitHub, through its REST API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.autopilot.propose.forge import STALE_MARK, ForgeError, ObservedChange, PostedChange, choose_action
from neve.autopilot.propose.forge_http import ForgeHttp
from neve.autopilot.propose.proposal import format_stale_body
from neve.http_client import quote_path_part

if TYPE_CHECKING:
    from neve.autopilot.config import ProposeConfig
    from neve.autopilot.propose.forge import ChangeStatus, ProposedChange

API_VERSION = "2022-11-28"
RAW_CONTENT = "application/vnd.github.raw+json"
# Anyone who can read a public repository can review in it. These associations belong to the repository.
TRUSTED_ASSOCIATIONS = ("OWNER", "MEMBER", "COLLABORATOR")
REVIEW_DECISIONS = ("APPROVED", "CHANGES_REQUESTED", "DISMISSED")


class GitHub:
    """A repository of specs on GitHub."""

    def __init__(self, config: ProposeConfig) -> None:
        self._http = ForgeHttp(
            config,
            {
                "Authorization": f"Bearer {config.token.get_secret_value()}",
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": API_VERSION,
            },
        )
        self._name = config.repository
        self._owner, _, name = config.repository.partition("/")
        self._repo = f"/repos/{quote_path_part(self._owner)}/{quote_path_part(name)}"
        self._author = {"name": config.author_name, "email": config.author_email}
        self._default = config.default_branch

    def propose(self, change: ProposedChange) -> PostedChange:
        """Open or update the pull request of a change."""
        observed, pull = self._fetch_state(change)
        action = choose_action(change, observed)
        if action == "leave":
            return PostedChange(change.branch, observed.place, "left")
        if action == "reopen":  # before the branch moves: afterwards GitHub would reject it
            self._http.json("PATCH", f"{self._repo}/pulls/{pull['number']}", {"state": "open"})
        pushed = self._push(change, observed)
        words = {"title": change.title, "body": change.body}
        if action == "open":
            made = self._http.json(
                "POST", f"{self._repo}/pulls", {**words, "head": change.branch, "base": observed.default_branch}
            )
            return PostedChange(change.branch, made["html_url"], "opened")
        if all(pull.get(key) == value for key, value in words.items()):
            return PostedChange(
                change.branch, observed.place, "updated" if pushed or action == "reopen" else "unchanged"
            )
        self._http.json("PATCH", f"{self._repo}/pulls/{pull['number']}", words)
        return PostedChange(change.branch, observed.place, "updated")

    def fetch_state(self, change: ProposedChange) -> ObservedChange:
        """Return the state of the pull request."""
        return self._fetch_state(change)[0]

    def merge(self, change: ProposedChange) -> None:
        """Merge the pull request, if its head is still the proposed commit."""
        observed, pull = self._fetch_state(change)
        if observed.status != "open" or not change.is_after(observed.branch_text):
            raise ForgeError(
                f"the pull request {observed.place} can't be merged: it is not open, or its content has changed"
            )
        self._http.json_when_settled(
            "PUT",
            f"{self._repo}/pulls/{pull['number']}/merge",
            {"sha": pull["head"]["sha"], "commit_title": change.title, "commit_message": ""},
        )

    def mark_stale(self, change: ProposedChange, reason: str) -> None:
        """Close the pull request, with the reason in its title and text."""
        observed, pull = self._fetch_state(change)
        if observed.status == "open":
            self._http.json(
                "PATCH",
                f"{self._repo}/pulls/{pull['number']}",
                {
                    "state": "closed",
                    "title": STALE_MARK + change.title,
                    "body": format_stale_body(change.body, reason),
                },
            )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _fetch_state(self, change: ProposedChange) -> tuple[ObservedChange, dict[str, Any]]:
        default = self._default or self._http.json("GET", self._repo)["default_branch"]
        pull = self._fetch_newest(change.branch, default)
        status = _pull_status(pull)
        approvals, objections = self._reviews(pull) if status == "open" else ((), ())
        observed = ObservedChange(
            status=status,
            place=pull.get("html_url", change.branch),
            default_branch=default,
            default_text=self._file(change.path, default),
            branch_text=self._file(change.path, change.branch),
            stale=str(pull.get("title", "")).startswith(STALE_MARK),
            approvals=approvals,
            objections=objections,
        )
        return observed, pull

    def _fetch_newest(self, branch: str, default: str) -> dict[str, Any]:
        """Return the newest pull request from our own branch; a fork may have a branch of the same name."""
        found = self._http.pages(
            f"{self._repo}/pulls", head=f"{self._owner}:{branch}", base=default, state="all", direction="desc"
        )
        ours = (pull for pull in found if pull["head"]["ref"] == branch and self._is_own(pull))
        return max(ours, key=lambda pull: int(pull["number"]), default={})

    def _is_own(self, pull: dict[str, Any]) -> bool:
        repository = pull["head"].get("repo") or {}  # null if the fork was deleted
        return str(repository.get("full_name", "")).lower() == self._name.lower()

    def _reviews(self, pull: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the approvers of the current head, and the objectors; the last review of each user counts."""
        last: dict[str, dict[str, Any]] = {}
        for review in self._http.pages(f"{self._repo}/pulls/{pull['number']}/reviews"):
            if (
                review.get("user")
                and review["author_association"] in TRUSTED_ASSOCIATIONS
                and review["state"] in REVIEW_DECISIONS
            ):
                last[review["user"]["login"]] = review
        head = pull["head"]["sha"]
        approvals = [name for name, one in last.items() if one["state"] == "APPROVED" and one.get("commit_id") == head]
        return tuple(approvals), tuple(name for name, one in last.items() if one["state"] == "CHANGES_REQUESTED")

    def _file(self, path: str, branch: str) -> str | None:
        address = "/".join(map(quote_path_part, path.split("/")))
        return self._http.text_or_none(f"{self._repo}/contents/{address}", RAW_CONTENT, ref=branch)

    def _push(self, change: ProposedChange, observed: ObservedChange) -> bool:
        """Put one commit on top of the default branch, and return whether the branch changed.

        A branch that already has the file is left unchanged: a new commit would dismiss its approvals.
        """
        text = change.apply(observed.default_text)
        if observed.status != "merged" and observed.branch_text == text:
            return False
        base = self._fetch_head(observed.default_branch)
        if base is None:
            raise ForgeError(
                f"the repository {self._name} has no branch {observed.default_branch}", hint="commit a file"
            )
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
        self._move_branch(change.branch, commit["sha"])
        return True

    def _move_branch(self, branch: str, sha: str) -> None:
        if self._fetch_head(branch) is None:
            self._http.json("POST", f"{self._repo}/git/refs", {"ref": f"refs/heads/{branch}", "sha": sha})
        else:
            self._http.json("PATCH", f"{self._repo}/git/refs/heads/{_branch_path(branch)}", {"sha": sha, "force": True})

    def _fetch_head(self, branch: str) -> str | None:
        found = self._http.json_or_none(f"{self._repo}/git/ref/heads/{_branch_path(branch)}")
        return str(found["object"]["sha"]) if found else None


def _branch_path(branch: str) -> str:
    return "/".join(map(quote_path_part, branch.split("/")))


def _pull_status(pull: dict[str, Any]) -> ChangeStatus:
    if not pull:
        return "missing"
    if pull.get("merged_at"):
        return "merged"
    return "open" if pull["state"] == "open" else "closed"
