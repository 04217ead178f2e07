"""One method of one path, as the description of the API has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.lake.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

PREFIX = "/api/v1"
BODY_FAILURES = (
    (408, "the body was too slow"),
    (413, "the body is too large"),
    (415, "the body is no JSON"),
)


@dataclass(frozen=True)
class Operation:
    """What it takes, what it answers with, and what can go wrong."""

    method: str
    path: str
    name: str
    summary: str
    answer: type[BaseModel] | None
    status: int = 200
    failures: tuple[tuple[int, str], ...] = ()
    body: type[BaseModel] | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    query: type[BaseModel] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    scope: Scope | None = Scope.READ

    @property
    def is_public(self) -> bool:
        """Whether it is there for everybody."""
        return self.scope is None

    @property
    def all_failures(self) -> list[tuple[int, str]]:
        """Every status of a failure, with words."""
        bodies = BODY_FAILURES if self.body else ()
        entry = () if self.scope is None else no_entry(self.scope)
        return sorted((*self.failures, *bodies, *entry))


def no_entry(scope: Scope) -> tuple[tuple[int, str], ...]:
    """What whoever has no key, the wrong one, or bad luck is told."""
    return (
        (401, "no key was sent"),
        (403, f"the key is unknown or revoked, or does not have the scope {scope}"),
        (500, "the server failed"),
        (503, "the lake or the store of keys does not answer; come back after `Retry-After` seconds"),
    )
