"""The endpoints of GitLab's REST API that proposals use, as its documentation has them, on loopback."""

from __future__ import annotations

from typing import Any

from tests.autopilot.propose.hosted import Hosted, Pull
from tests.autopilot.propose.loopback import Answer, Asked, Loopback

TOKEN = "glpat-verysecret"  # noqa: S105 - of a server on loopback
PROJECT = r"/api/v4/projects/acme%2Flake%2Fspecs"
MISSING = Answer(404, {"message": "404 Not Found"})
STATES = {"open": "opened", "closed": "closed", "merged": "merged"}


class GitLabServer(Loopback):
    """A project acme/lake/specs; a request without the token is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.hosted = Hosted()
        for method, path, answer in (
            ("GET", "", lambda _: Answer(body={"default_branch": "main", "id": 7})),
            ("GET", "/repository/files/([^/]+)/raw", self._file),
            ("POST", "/repository/commits", self._make_commit),
            ("GET", "/merge_requests", self._requests),
            ("POST", "/merge_requests", self._make_request),
            ("PUT", "/merge_requests/([0-9]+)", self._change_request),
            ("GET", "/merge_requests/([0-9]+)/approvals", self._approvals),
            ("PUT", "/merge_requests/([0-9]+)/merge", self._merge),
        ):
            self.route(method, PROJECT + path, answer)

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> Answer:
        """Refuses what GitLab would refuse before it looks at the path."""
        if headers.get("private-token") != TOKEN:
            return Answer(401, {"message": "401 Unauthorized"})
        return super().answer(method, target, headers, body)

    def _file(self, asked: Asked) -> Answer:
        text = self.hosted.files(asked.query["ref"]).get(asked.parts[0])
        return MISSING if text is None else Answer(body=text)

    def _make_commit(self, asked: Asked) -> Answer:
        body = asked.body
        if body["branch"] in self.hosted.branches and not body.get("force"):
            return Answer(400, {"message": "A branch with that name already exists"})
        base, changed = self.hosted.files(body["start_branch"]), {}
        for action in body["actions"]:
            if (action["action"] == "create") == (action["file_path"] in base):
                return Answer(400, {"message": "A file with this name already exists, or doesn't exist"})
            changed[action["file_path"]] = action["content"]
        author = f"{body['author_name']} <{body['author_email']}>"
        parent = self.hosted.branches[body["start_branch"]]
        sha = self.hosted.commit({**base, **changed}, parent, body["commit_message"], author)
        self.hosted.branches[body["branch"]] = sha
        return Answer(201, {"id": sha})

    def _requests(self, asked: Asked) -> Answer:
        assert (asked.query["state"], asked.query["target_branch"]) == ("all", "main")
        found = [self._shown(one) for one in self.hosted.pulls if one.branch == asked.query["source_branch"]]
        return Answer(body=list(reversed(found)) if asked.query["page"] == "1" else [])

    def _make_request(self, asked: Asked) -> Answer:
        body = asked.body
        try:
            made = self.hosted.open_pull(
                body["source_branch"], body["target_branch"], body["title"], body["description"]
            )
        except ValueError as error:
            return Answer(409, {"message": [str(error)]})
        return Answer(201, self._shown(made))

    def _change_request(self, asked: Asked) -> Answer:
        pull, body = self.hosted.pulls[int(asked.parts[0]) - 1], asked.body
        pull.title, pull.body = body.get("title", pull.title), body.get("description", pull.body)
        pull.state = {"close": "closed", "reopen": "open"}.get(body.get("state_event", ""), pull.state)
        return Answer(body=self._shown(pull))

    def _approvals(self, asked: Asked) -> Answer:
        reviews = self.hosted.pulls[int(asked.parts[0]) - 1].reviews
        return Answer(body={"approved": True, "approvals_required": 0, "approved_by": reviews})

    def _merge(self, asked: Asked) -> Answer:
        try:
            self.hosted.merge(self.hosted.pulls[int(asked.parts[0]) - 1], asked.body["sha"])
        except ValueError as error:
            return Answer(409, {"message": str(error)})
        return Answer(body={"state": "merged"})

    def _shown(self, pull: Pull) -> dict[str, object]:
        return {
            "iid": pull.number,
            "web_url": f"{self.url}/acme/lake/specs/-/merge_requests/{pull.number}",
            "title": pull.title,
            "description": pull.body,
            "state": STATES[pull.state],
            "sha": self.hosted.branches.get(pull.branch),
            "source_branch": pull.branch,
            "source_project_id": 8 if pull.fork else 7,
            "target_project_id": 7,
        }
