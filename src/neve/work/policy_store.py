"""The policies that hold: those of the files, or those that somebody wrote since, which the state store keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import xxhash

from neve.errors import NeveError
from neve.lake.documents import dump
from neve.work.policies import Policies
from neve.work.policy_files import read_policies

if TYPE_CHECKING:
    from datetime import datetime

    from neve.lake.documents import Documents

SPACE, KEY = "policies", "written"


class PolicyConflict(NeveError):
    """Raised when policies were changed since whoever changes them looked."""


@dataclass(frozen=True)
class PolicyStore:
    """Policies of files (`given`), until somebody writes others; those hold until they are cleared."""

    documents: Documents
    given: Policies

    def load(self) -> Policies:
        """The policies that hold now."""
        return self._policies(self.documents.get(SPACE, KEY))

    def version(self) -> str:
        """What changes with every change of the policies that hold."""
        return version_of(self.load())

    def source(self) -> str:
        """Where the policies that hold come from, in words."""
        document = self.documents.get(SPACE, KEY)
        if document is not None:
            return f"written by {document['by']} at {document['at']}, in the place of those of the files"
        return "the configuration" if self.given.written else "built in; nobody wrote any"

    def save(self, policies: Policies, by: str, expected: str | None = None) -> str:
        """Let others hold, and give their version; raises `PolicyConflict` where what holds is not as expected."""
        while True:
            document = self.documents.get(SPACE, KEY)
            self._check(document, expected)
            value = {"policies": policies.plain, "by": by, "at": f"{self.now():%Y-%m-%dT%H:%M:%SZ}"}
            if self.documents.swap(SPACE, KEY, document, value):
                return version_of(policies)

    def clear(self, expected: str | None = None) -> str:
        """Let those of the files hold again, and give their version."""
        while True:
            document = self.documents.get(SPACE, KEY)
            self._check(document, expected)
            if document is None or self.documents.swap(SPACE, KEY, document, None):
                return version_of(self.given)

    def now(self) -> datetime:
        """The time by the store's clock, which all who share it go by."""
        return self.documents.now()

    def _policies(self, document: dict[str, Any] | None) -> Policies:
        if document is None:
            return self.given
        return Policies(read_policies(document["policies"], "the state store"), self.given.defaults)

    def _check(self, document: dict[str, Any] | None, expected: str | None) -> None:
        found = version_of(self._policies(document))
        if expected is not None and expected != found:
            raise PolicyConflict(
                f"the policies have version {found}, expected {expected}: somebody changed them since",
                hint="read them again, and change what is there now",
            )


def version_of(policies: Policies) -> str:
    """The version of policies: equal ones have equal versions."""
    return str(xxhash.xxh3_64_hexdigest(dump({"policies": policies.plain}).encode()))
