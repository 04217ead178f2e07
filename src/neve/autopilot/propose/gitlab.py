"""Proposals as merge requests on GitLab, through its REST API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.autopilot.propose.forge import STALE_MARK, ForgeError, ObservedChange, PostedChange, choose_action
from neve.autopilot.propose.forge_http import ForgeHttp
from neve.autopilot.propose.proposal import format_stale_body
from neve.http_client import quote_path_part

if TYPE_CHECKING:
    from neve.autopilot.config import ProposeConfig
    from neve.autopilot.propose.forge import ChangeStatus, ProposedChange

STATUSES: dict[str, ChangeStatus] = {"opened": "open", "locked": "open", "closed": "closed", "merged": "merged"}


class GitLab:
    """A project of specs on GitLab."""

    def __init__(self, config: ProposeConfig) -> None:
        self._http = ForgeHttp(config, {"PRIVATE-TOKEN": config.token.get_secret_value()})
        self._name = config.repository
        self._project = f"/projects/{quote_path_part(config.repository)}"
        self._author = {"author_name": config.author_name, "author_email": config.author_email}
        self._default = config.default_branch

    def propose(self, change: ProposedChange) -> PostedChange:
        """Open or update the merge request of a change."""
        observed, request = self._fetch_state(change)
        action = choose_action(change, observed)
        if action == "leave":
            return PostedChange(change.branch, observed.place, "left")
        pushed = self._push(change, observed)
        words = {"title": change.title, "description": change.body}
        if action == "open":
            made = self._http.json(
                "POST",
                f"{self._project}/merge_requests",
                {**words, "source_branch": change.branch, "target_branch": observed.default_branch},
            )
            return PostedChange(change.branch, made["web_url"], "opened")
        if action == "refresh" and all(request.get(key) == value for key, value in words.items()):
            return PostedChange(change.branch, observed.place, "updated" if pushed else "unchanged")
        again = {"state_event": "reopen"} if action == "reopen" else {}
        self._http.json("PUT", f"{self._project}/merge_requests/{request['iid']}", {**words, **again})
        return PostedChange(change.branch, observed.place, "updated")

    def fetch_state(self, change: ProposedChange) -> ObservedChange:
        """Return the state of the merge request."""
        return self._fetch_state(change)[0]

    def merge(self, change: ProposedChange) -> None:
        """Merge the merge request, if its head is still the proposed commit."""
        observed, request = self._fetch_state(change)
        if observed.status != "open" or not change.is_after(observed.branch_text):
            raise ForgeError(
                f"the merge request {observed.place} can't be merged: it is not open, or its content has changed"
            )
        path = f"{self._project}/merge_requests/{request['iid']}/merge"
        self._http.json_when_settled("PUT", path, {"sha": request["sha"]})

    def mark_stale(self, change: ProposedChange, reason: str) -> None:
        """Close the merge request, with the reason in its title and text."""
        observed, request = self._fetch_state(change)
        if observed.status == "open":
            self._http.json(
                "PUT",
                f"{self._project}/merge_requests/{request['iid']}",
                {
                    "state_event": "close",
                    "title": STALE_MARK + change.title,
                    "description": format_stale_body(change.body, reason),
                },
            )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _fetch_state(self, change: ProposedChange) -> tuple[ObservedChange, dict[str, Any]]:
        default = self._default or self._http.json("GET", self._project)["default_branch"]
        request = self._fetch_newest(change.branch, default)
        status = STATUSES[request["state"]] if request else "missing"
        observed = ObservedChange(
            status=status,
            place=request.get("web_url", change.branch),
            default_branch=default,
            default_text=self._file(change.path, default),
            branch_text=self._file(change.path, change.branch),
            stale=str(request.get("title", "")).startswith(STALE_MARK),
            approvals=self._approvals(request) if status == "open" else (),
        )
        return observed, request

    def _fetch_newest(self, branch: str, default: str) -> dict[str, Any]:
        """Return the newest merge request from our own branch; a fork may have a branch of the same name."""
        found = self._http.pages(
            f"{self._project}/merge_requests", source_branch=branch, target_branch=default, state="all"
        )
        ours = (
            one
            for one in found
            if one["source_branch"] == branch and one["source_project_id"] == one["target_project_id"]
        )
        return max(ours, key=lambda one: int(one["iid"]), default={})

    def _approvals(self, request: dict[str, Any]) -> tuple[str, ...]:
        """Return the users who approved; empty while a rule of the project requires more approvals.

        `approved` alone is not enough: it is true for a request that needs no approval and has none.
        """
        found = self._http.json("GET", f"{self._project}/merge_requests/{request['iid']}/approvals")
        if found.get("approved") is False:
            return ()
        return tuple(one["user"]["username"] for one in found.get("approved_by", ()))

    def _file(self, path: str, branch: str) -> str | None:
        return self._http.text_or_none(
            f"{self._project}/repository/files/{quote_path_part(path)}/raw", "text/plain", ref=branch
        )

    def _push(self, change: ProposedChange, observed: ObservedChange) -> bool:
        """Put one commit on top of the default branch, and return whether the branch changed.

        A branch that already has the file is left unchanged: a new commit would dismiss its approvals.
        """
        text = change.apply(observed.default_text)
        if observed.status != "merged" and observed.branch_text == text:
            return False
        action = "create" if observed.default_text is None else "update"
        self._http.json(
            "POST",
            f"{self._project}/repository/commits",
            {
                "branch": change.branch,
                "start_branch": observed.default_branch,
                "force": True,
                "commit_message": change.message,
                "actions": [{"action": action, "file_path": change.path, "content": text}],
                **self._author,
            },
        )
        return True
