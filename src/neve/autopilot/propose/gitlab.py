"""Proposals as merge requests on GitLab, through its REST API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.autopilot.propose.body import stale_body
from neve.autopilot.propose.http import ForgeHttp, part
from neve.autopilot.propose.port import STALE_MARK, ForgeError, Posted, Seen
from neve.autopilot.propose.state import course_of

if TYPE_CHECKING:
    from neve.autopilot.propose.port import Change, Status
    from neve.autopilot.propose_config import ProposeConfig

STATUSES: dict[str, Status] = {"opened": "open", "locked": "open", "closed": "closed", "merged": "merged"}


class GitLab:
    """A project of specs on GitLab."""

    def __init__(self, config: ProposeConfig) -> None:
        self._http = ForgeHttp(config, {"PRIVATE-TOKEN": config.token.get_secret_value()})
        self._name = config.repository
        self._project = f"/projects/{part(config.repository)}"
        self._author = {"author_name": config.author_name, "author_email": config.author_email}
        self._default = config.default_branch

    def propose(self, change: Change) -> Posted:
        """Open or update the merge request of a change."""
        seen, request = self._look(change)
        course = course_of(change, seen)
        if course == "leave":
            return Posted(change.branch, seen.place, "left")
        pushed = self._push(change, seen)
        words = {"title": change.title, "description": change.body}
        if course == "open":
            made = self._http.json(
                "POST",
                f"{self._project}/merge_requests",
                {**words, "source_branch": change.branch, "target_branch": seen.default_branch},
            )
            return Posted(change.branch, made["web_url"], "opened")
        if course == "refresh" and all(request.get(key) == value for key, value in words.items()):
            return Posted(change.branch, seen.place, "updated" if pushed else "unchanged")
        again = {"state_event": "reopen"} if course == "reopen" else {}
        self._http.json("PUT", f"{self._project}/merge_requests/{request['iid']}", {**words, **again})
        return Posted(change.branch, seen.place, "updated")

    def look(self, change: Change) -> Seen:
        """What became of the merge request."""
        return self._look(change)[0]

    def merge(self, change: Change) -> None:
        """Merge the merge request, if its head is still what was proposed."""
        seen, request = self._look(change)
        if seen.status != "open" or not change.is_after(seen.branch_text):
            raise ForgeError(f"the merge request {seen.place} is not open with what was proposed, it can't be merged")
        path = f"{self._project}/merge_requests/{request['iid']}/merge"
        self._http.json_when_settled("PUT", path, {"sha": request["sha"]})

    def mark_stale(self, change: Change, reason: str) -> None:
        """Close the merge request, with the reason in its title and text."""
        seen, request = self._look(change)
        if seen.status == "open":
            self._http.json(
                "PUT",
                f"{self._project}/merge_requests/{request['iid']}",
                {
                    "state_event": "close",
                    "title": STALE_MARK + change.title,
                    "description": stale_body(change.body, reason),
                },
            )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _look(self, change: Change) -> tuple[Seen, dict[str, Any]]:
        default = self._default or self._http.json("GET", self._project)["default_branch"]
        request = self._newest(change.branch, default)
        status = STATUSES[request["state"]] if request else "missing"
        seen = Seen(
            status=status,
            place=request.get("web_url", change.branch),
            default_branch=default,
            default_text=self._file(change.path, default),
            branch_text=self._file(change.path, change.branch),
            stale=str(request.get("title", "")).startswith(STALE_MARK),
            approvals=self._approvals(request) if status == "open" else (),
        )
        return seen, request

    def _newest(self, branch: str, default: str) -> dict[str, Any]:
        """The newest merge request from our own branch; one from a fork may have a branch of the same name."""
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
        """Who approved; nobody, while a rule of the project asks for more.

        `approved` alone says nothing: it is true of a request that needs no approval and has none.
        """
        found = self._http.json("GET", f"{self._project}/merge_requests/{request['iid']}/approvals")
        if found.get("approved") is False:
            return ()
        return tuple(one["user"]["username"] for one in found.get("approved_by", ()))

    def _file(self, path: str, branch: str) -> str | None:
        return self._http.text_or_none(f"{self._project}/repository/files/{part(path)}/raw", "text/plain", ref=branch)

    def _push(self, change: Change, seen: Seen) -> bool:
        """One commit on top of the default branch; whether the branch was not like that already.

        A branch that has the file is left as it is: a new commit would take its approvals away.
        """
        text = change.applied(seen.default_text)
        if seen.status != "merged" and seen.branch_text == text:
            return False
        action = "create" if seen.default_text is None else "update"
        self._http.json(
            "POST",
            f"{self._project}/repository/commits",
            {
                "branch": change.branch,
                "start_branch": seen.default_branch,
                "force": True,
                "commit_message": change.message,
                "actions": [{"action": action, "file_path": change.path, "content": text}],
                **self._author,
            },
        )
        return True
