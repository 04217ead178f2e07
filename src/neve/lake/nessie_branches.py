"""Branches of a Nessie server: each has the whole catalog to itself, specs and schemas included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.errors import CommitConflict, LakeError
from neve.lake.branches import MAIN, PREFIX, check_ours
from neve.lake.json_http import JsonHttp, Refused, part

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFLICT = 409


class NessieBranches:
    """The port, by version 2 of Nessie's API; a version is a commit's hash."""

    def __init__(self, url: str, token: str = "") -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = JsonHttp("nessie", url, headers)

    def create(self, name: str, version: str) -> None:
        """Make a branch at a commit of main."""
        check_ours(name)
        source = {"type": "BRANCH", "name": MAIN, "hash": version}
        try:
            self._http.ask("POST", "/trees", source, name=name, type="BRANCH")
        except Refused as refused:
            found = self.head(name)
            if refused.status != CONFLICT or found is None:
                raise
            if found != version:
                raise CommitConflict(f"the branch {name} is at {found}, expected {version}") from refused

    def head(self, name: str) -> str | None:
        """The commit of a branch."""
        found = self._http.ask_or_none(f"/trees/{part(name)}")
        return None if found is None else str(found["reference"]["hash"])

    def remove(self, name: str) -> None:
        """Remove a branch as it stands; one that moves meanwhile is left."""
        check_ours(name)
        head = self.head(name)
        if head is not None:
            self._http.ask("DELETE", f"/trees/{part(f'{name}@{head}')}", type="BRANCH")

    def names(self) -> tuple[str, ...]:
        """The autopilot's branches of the catalog."""
        return tuple(sorted(one["name"] for one in self._references() if one["name"].startswith(PREFIX)))

    def merge(self, name: str) -> str:
        """Merge into main; Nessie refuses where both changed the same table."""
        check_ours(name)
        head, main = self.head(name), self.head(MAIN)
        if head is None or main is None:
            raise LakeError(f"nessie has no branch {name if head is None else MAIN}")
        if head == main:
            return main
        target = f"/trees/{part(f'{MAIN}@{main}')}/history/merge"
        try:
            done = self._http.ask("POST", target, {"fromRefName": name, "fromHash": head})
        except Refused as refused:
            if refused.status != CONFLICT:
                raise
            raise CommitConflict(
                f"nessie does not merge {name} into main: {refused.message}", hint="stage it anew on main's commit"
            ) from refused
        if not done.get("wasSuccessful"):
            raise CommitConflict(f"nessie does not merge {name} into main", hint="stage it anew on main's commit")
        return str(done["resultantTargetHash"])

    def _references(self) -> Iterator[dict[str, Any]]:
        query: dict[str, str] = {}
        while True:
            page = self._http.ask("GET", "/trees", None, **query)
            yield from page["references"]
            if not page.get("hasMore"):
                return
            query = {"page-token": page["token"]}
