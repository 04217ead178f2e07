"""Branches of a lakeFS repository: they version the files behind its S3 gateway, not a catalog's tables.

Its open version has no Iceberg catalog. Metadata files of a table name each other by their address in the branch, so
that a branch of files alone can't hold another layout of a table whose catalog is elsewhere.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from neve.errors import CommitConflict, LakeError
from neve.lake.branches import MAIN, PREFIX, check_ours
from neve.lake.json_http import JsonHttp, Refused, part

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFLICT = 409
NOTHING_NEW = 400
MESSAGE = "neve autopilot"


class LakeFSBranches:
    """The port, by version 1 of lakeFS's API; a version is a commit's id."""

    def __init__(self, endpoint: str, repository: str, access_key: str, secret_key: str) -> None:
        secret = base64.b64encode(f"{access_key}:{secret_key}".encode()).decode()
        base = f"{endpoint.rstrip('/')}/api/v1/repositories/{part(repository)}"
        self._http = JsonHttp("lakefs", base, {"Authorization": f"Basic {secret}"})

    def create(self, name: str, version: str) -> None:
        """Make a branch at a commit."""
        check_ours(name)
        try:
            self._http.ask("POST", "/branches", {"name": name, "source": version})
        except Refused as refused:
            found = self.head(name)
            if refused.status != CONFLICT or found is None:
                raise
            if found != version:
                raise CommitConflict(f"the branch {name} is at {found}, expected {version}") from refused

    def head(self, name: str) -> str | None:
        """The commit of a branch."""
        found = self._http.ask_or_none(f"/branches/{part(name)}")
        return None if found is None else str(found["commit_id"])

    def remove(self, name: str) -> None:
        """Remove a branch, with what was not committed on it."""
        check_ours(name)
        try:
            self._http.ask("DELETE", f"/branches/{part(name)}")
        except Refused as refused:
            if refused.status != 404:
                raise

    def names(self) -> tuple[str, ...]:
        """The autopilot's branches of the repository."""
        return tuple(sorted(str(one["id"]) for one in self._branches()))

    def merge(self, name: str) -> str:
        """Commit what was written on the branch, and merge it into main."""
        check_ours(name)
        if self.head(name) is None:
            raise LakeError(f"lakefs has no branch {name}")
        self._unless_empty("POST", f"/branches/{part(name)}/commits")
        try:
            self._unless_empty("POST", f"/refs/{part(name)}/merge/{MAIN}")
        except Refused as refused:
            if refused.status != CONFLICT:
                raise
            raise CommitConflict(
                f"lakefs does not merge {name} into main: {refused.message}", hint="stage it anew on main's commit"
            ) from refused
        return str(self.head(MAIN))

    def _unless_empty(self, method: str, path: str) -> None:
        """Ask for a commit or a merge; that there is nothing to put into it is no error."""
        try:
            self._http.ask(method, path, {"message": MESSAGE})
        except Refused as refused:
            if refused.status != NOTHING_NEW or "no changes" not in refused.message:
                raise

    def _branches(self) -> Iterator[dict[str, Any]]:
        query = {"prefix": PREFIX}
        while True:
            page = self._http.ask("GET", "/branches", None, **query)
            yield from page["results"]
            if not page["pagination"]["has_more"]:
                return
            query["after"] = page["pagination"]["next_offset"]
