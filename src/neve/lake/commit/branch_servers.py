"""Branches of a Nessie server and of a lakeFS repository.

A Nessie branch contains the whole catalog, including specs and schemas. lakeFS versions the files behind its S3
gateway, not a catalog's tables: its open-source version has no Iceberg catalog. Metadata files of a table refer to each
other by their address in the branch, so a branch of files alone can't contain another layout of a table with a catalog
elsewhere.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from neve.errors import CommitConflict, LakeError
from neve.http_client import quote_path_part
from neve.lake.commit.branches import BRANCH_PREFIX, MAIN_BRANCH, check_own_branch
from neve.lake.http import HttpStatusError, JsonHttpClient

if TYPE_CHECKING:
    from collections.abc import Iterator


CONFLICT = 409


class NessieBranches:
    """Implementation of `Branches` with version 2 of Nessie's API. A version is the hash of a commit."""

    def __init__(self, url: str, token: str = "") -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = JsonHttpClient("nessie", url, headers)

    def create(self, name: str, version: str) -> None:
        """Create a branch at a commit of main."""
        check_own_branch(name)
        source = {"type": "BRANCH", "name": MAIN_BRANCH, "hash": version}
        try:
            self._http.ask("POST", "/trees", source, name=name, type="BRANCH")
        except HttpStatusError as refused:
            _accept_existing(refused, name, self.head(name), version)

    def head(self, name: str) -> str | None:
        """Return the commit of a branch."""
        found = self._http.ask_or_none(f"/trees/{quote_path_part(name)}")
        return None if found is None else str(found["reference"]["hash"])

    def remove(self, name: str) -> None:
        """Delete a branch at its current commit. A branch that changes meanwhile stays."""
        check_own_branch(name)
        head = self.head(name)
        if head is not None:
            self._http.ask("DELETE", f"/trees/{quote_path_part(f'{name}@{head}')}", type="BRANCH")

    def names(self) -> tuple[str, ...]:
        """List the autopilot's branches of the catalog."""
        return tuple(sorted(one["name"] for one in self._references() if one["name"].startswith(BRANCH_PREFIX)))

    def merge(self, name: str) -> str:
        """Merge into main. Nessie rejects the merge if both changed the same table."""
        check_own_branch(name)
        head, main = self.head(name), self.head(MAIN_BRANCH)
        if head is None or main is None:
            raise LakeError(f"nessie has no branch {name if head is None else MAIN_BRANCH}")
        if head == main:
            return main
        target = f"/trees/{quote_path_part(f'{MAIN_BRANCH}@{main}')}/history/merge"
        try:
            done = self._http.ask("POST", target, {"fromRefName": name, "fromHash": head})
        except HttpStatusError as refused:
            if refused.status != CONFLICT:
                raise
            raise CommitConflict(
                f"nessie does not merge {name} into main: {refused.message}",
                hint="stage it again on the commit of main",
            ) from refused
        if not done.get("wasSuccessful"):
            raise CommitConflict(f"nessie does not merge {name} into main", hint="stage it again on the commit of main")
        return str(done["resultantTargetHash"])

    def _references(self) -> Iterator[dict[str, Any]]:
        query: dict[str, str] = {}
        while True:
            page = self._http.ask("GET", "/trees", None, **query)
            yield from page["references"]
            if not page.get("hasMore"):
                return
            query = {"page-token": page["token"]}


NO_CHANGES = 400
COMMIT_MESSAGE = "neve autopilot"


class LakeFSBranches:
    """Implementation of `Branches` with version 1 of lakeFS's API. A version is the id of a commit."""

    def __init__(self, endpoint: str, repository: str, access_key: str, secret_key: str) -> None:
        secret = base64.b64encode(f"{access_key}:{secret_key}".encode()).decode()
        base = f"{endpoint.rstrip('/')}/api/v1/repositories/{quote_path_part(repository)}"
        self._http = JsonHttpClient("lakefs", base, {"Authorization": f"Basic {secret}"})

    def create(self, name: str, version: str) -> None:
        """Create a branch at a commit."""
        check_own_branch(name)
        try:
            self._http.ask("POST", "/branches", {"name": name, "source": version})
        except HttpStatusError as refused:
            _accept_existing(refused, name, self.head(name), version)

    def head(self, name: str) -> str | None:
        """Return the commit of a branch."""
        found = self._http.ask_or_none(f"/branches/{quote_path_part(name)}")
        return None if found is None else str(found["commit_id"])

    def remove(self, name: str) -> None:
        """Delete a branch with its uncommitted changes."""
        check_own_branch(name)
        try:
            self._http.ask("DELETE", f"/branches/{quote_path_part(name)}")
        except HttpStatusError as refused:
            if refused.status != 404:
                raise

    def names(self) -> tuple[str, ...]:
        """List the autopilot's branches of the repository."""
        return tuple(sorted(str(one["id"]) for one in self._branches()))

    def merge(self, name: str) -> str:
        """Commit the changes on the branch, and merge it into main."""
        check_own_branch(name)
        if self.head(name) is None:
            raise LakeError(f"lakefs has no branch {name}")
        self._unless_empty("POST", f"/branches/{quote_path_part(name)}/commits")
        try:
            self._unless_empty("POST", f"/refs/{quote_path_part(name)}/merge/{MAIN_BRANCH}")
        except HttpStatusError as refused:
            if refused.status != CONFLICT:
                raise
            raise CommitConflict(
                f"lakefs does not merge {name} into main: {refused.message}",
                hint="stage it again on the commit of main",
            ) from refused
        return str(self.head(MAIN_BRANCH))

    def _unless_empty(self, method: str, path: str) -> None:
        """Request a commit or a merge. An empty one is not an error."""
        try:
            self._http.ask(method, path, {"message": COMMIT_MESSAGE})
        except HttpStatusError as refused:
            if refused.status != NO_CHANGES or "no changes" not in refused.message:
                raise

    def _branches(self) -> Iterator[dict[str, Any]]:
        query = {"prefix": BRANCH_PREFIX}
        while True:
            page = self._http.ask("GET", "/branches", None, **query)
            yield from page["results"]
            if not page["pagination"]["has_more"]:
                return
            query["after"] = page["pagination"]["next_offset"]


def _accept_existing(refused: HttpStatusError, name: str, found: str | None, version: str) -> None:
    """Accept a branch that exists at the expected commit. Raises `CommitConflict` if it is at another one."""
    if refused.status != CONFLICT or found is None:
        raise refused
    if found != version:
        raise CommitConflict(f"the branch {name} is at {found}, expected {version}") from refused
