"""The endpoints of GitHub's REST API that proposals use, as its documentation has them, on loopback."""

from __future__ import annotations

from typing import Any

from tests.autopilot.propose.hosted import Hosted, Pull
from tests.autopilot.propose.loopback import Answer, Asked, Loopback

TOKEN = "ghp_verysecret"  # noqa: S105 - of a server on loopback
REPO = r"/repos/acme/specs"
MISSING = Answer(404, {"message": "Not Found"})


class GitHubServer(Loopback):
    """A repository acme/specs; a request without the token, the version and a user agent is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.hosted = Hosted()
        for method, path, answer in (
            ("GET", "", lambda _: Answer(body={"default_branch": "main", "full_name": "acme/specs"})),
            ("GET", "/contents/(.+)", self._contents),
            ("GET", "/git/ref/heads/(.+)", self._ref),
            ("GET", "/git/commits/([0-9a-f]{40})", self._commit),
            ("POST", "/git/trees", self._make_tree),
            ("POST", "/git/commits", self._make_commit),
            ("POST", "/git/refs", self._make_ref),
            ("PATCH", "/git/refs/heads/(.+)", self._move_ref),
            ("GET", "/pulls", self._pulls),
            ("POST", "/pulls", self._make_pull),
            ("PATCH", "/pulls/([0-9]+)", self._change_pull),
            ("GET", "/pulls/([0-9]+)/reviews", self._reviews),
            ("PUT", "/pulls/([0-9]+)/merge", self._merge),
        ):
            self.route(method, REPO + path, answer)

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> Answer:
        """Refuses what GitHub would refuse before it looks at the path."""
        if headers.get("authorization") != f"Bearer {TOKEN}":
            return Answer(401, {"message": "Bad credentials"})
        if "user-agent" not in headers or headers.get("x-github-api-version") != "2022-11-28":
            return Answer(403, {"message": "Request forbidden by administrative rules"})
        return super().answer(method, target, headers, body)

    def _contents(self, asked: Asked) -> Answer:
        assert asked.headers["accept"] == "application/vnd.github.raw+json"
        text = self.hosted.files(asked.query["ref"]).get(asked.parts[0])
        return MISSING if text is None else Answer(body=text)

    def _ref(self, asked: Asked) -> Answer:
        sha = self.hosted.branches.get(asked.parts[0])
        return Answer(body={"ref": f"refs/heads/{asked.parts[0]}", "object": {"sha": sha}}) if sha else MISSING

    def _commit(self, asked: Asked) -> Answer:
        tree = self.hosted.tree(self.hosted.commits[asked.parts[0]].files, {})
        return Answer(body={"sha": asked.parts[0], "tree": {"sha": tree}})

    def _make_tree(self, asked: Asked) -> Answer:
        entries = asked.body["tree"]
        assert all(one["mode"] == "100644" and one["type"] == "blob" for one in entries)
        base = self.hosted.trees[asked.body["base_tree"]]
        return Answer(201, {"sha": self.hosted.tree(base, {one["path"]: one["content"] for one in entries})})

    def _make_commit(self, asked: Asked) -> Answer:
        body = asked.body
        files, author = self.hosted.trees[body["tree"]], body["author"]
        (parent,) = body["parents"]
        return Answer(
            201, {"sha": self.hosted.commit(files, parent, body["message"], f"{author['name']} <{author['email']}>")}
        )

    def _make_ref(self, asked: Asked) -> Answer:
        branch = asked.body["ref"].removeprefix("refs/heads/")
        if branch in self.hosted.branches:
            return Answer(422, {"message": "Reference already exists"})
        self.hosted.branches[branch] = asked.body["sha"]
        return Answer(201, {"ref": asked.body["ref"]})

    def _move_ref(self, asked: Asked) -> Answer:
        if asked.parts[0] not in self.hosted.branches:
            return Answer(422, {"message": "Reference does not exist"})
        assert asked.body["force"] is True
        self.hosted.branches[asked.parts[0]] = asked.body["sha"]
        return Answer(body={})

    def _pulls(self, asked: Asked) -> Answer:
        owner, _, branch = asked.query["head"].partition(":")
        assert (owner, asked.query["state"], asked.query["base"]) == ("acme", "all", "main")
        found = [self._shown(one) for one in self.hosted.pulls if one.branch == branch]
        return Answer(body=list(reversed(found)) if asked.query["page"] == "1" else [])

    def _make_pull(self, asked: Asked) -> Answer:
        body = asked.body
        try:
            pull = self.hosted.open_pull(body["head"], body["base"], body["title"], body["body"])
        except ValueError as error:
            return Answer(422, {"message": "Validation Failed", "errors": [{"message": str(error)}]})
        return Answer(201, self._shown(pull))

    def _change_pull(self, asked: Asked) -> Answer:
        pull = self.hosted.pulls[int(asked.parts[0]) - 1]
        pull.title, pull.body = asked.body.get("title", pull.title), asked.body.get("body", pull.body)
        pull.state = asked.body.get("state", pull.state)
        return Answer(body=self._shown(pull))

    def _reviews(self, asked: Asked) -> Answer:
        reviews = self.hosted.pulls[int(asked.parts[0]) - 1].reviews
        first = (int(asked.query["page"]) - 1) * int(asked.query["per_page"])
        return Answer(body=reviews[first : first + int(asked.query["per_page"])])

    def _merge(self, asked: Asked) -> Answer:
        try:
            self.hosted.merge(self.hosted.pulls[int(asked.parts[0]) - 1], asked.body["sha"])
        except ValueError as error:
            return Answer(409, {"message": str(error)})
        return Answer(body={"merged": True})

    def _shown(self, pull: Pull) -> dict[str, object]:
        repository = {"full_name": "Acme/Specs" if not pull.fork else "stranger/specs"}
        return {
            "number": pull.number,
            "html_url": f"{self.url}/acme/specs/pull/{pull.number}",
            "title": pull.title,
            "body": pull.body,
            "state": "open" if pull.state == "open" else "closed",
            "merged_at": "2026-01-31T00:00:00Z" if pull.state == "merged" else None,
            "head": {"ref": pull.branch, "sha": self.hosted.branches.get(pull.branch), "repo": repository},
        }
