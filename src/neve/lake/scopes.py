"""What an API key is good for, and who speaks with one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


class Scope(StrEnum):
    """One thing that a key lets its owner do."""

    WRITE = "write"  # send telemetry
    READ = "read"  # ask
    ANNOUNCE = "announce"  # say which files are to be ingested, in the places that are configured for the organization
    ADMIN = "admin"  # operate: see and change what tends the whole lake, whoever its rows belong to
    METRICS = "metrics"  # see health in detail, and metrics


# What an organization does with its own telemetry, and what a key is good for unless it says otherwise. To announce
# makes the service read files with its own rights, and to operate concerns every organization: both are given by name
# only.
ALL_SCOPES = (Scope.WRITE, Scope.READ)
# Keys that were made before there were scopes could do this and no more.
SCOPES_BEFORE = (Scope.WRITE,)


@dataclass(frozen=True)
class Caller:
    """Whom a request speaks for, with which key, and what it may; no key where none is asked for."""

    organization: str
    key_id: str = ""
    scopes: tuple[Scope, ...] = ALL_SCOPES
    expires_at: datetime | None = None

    def may(self, scope: Scope) -> bool:
        """Whether a scope is among those of the key; who operates the lake also sees its health.

        >>> Caller("acme", scopes=(Scope.ADMIN,)).may(Scope.METRICS), Caller("acme").may(Scope.ADMIN)
        (True, False)
        """
        return scope in self.scopes or (scope is Scope.METRICS and Scope.ADMIN in self.scopes)


def scopes_text(scopes: Iterable[Scope]) -> str:
    """Scopes as they are stored and shown: each once, in the order of their declaration.

    >>> scopes_text([Scope.ADMIN, Scope.READ, Scope.WRITE, Scope.READ])
    'write,read,admin'
    """
    wanted = set(scopes)
    return ",".join(scope for scope in Scope if scope in wanted)


def parse_scopes(text: str | None) -> tuple[Scope, ...]:
    """Stored scopes; a word that a newer release wrote means nothing here.

    >>> parse_scopes("read"), parse_scopes(None), parse_scopes("write,fly")
    ((<Scope.READ: 'read'>,), (<Scope.WRITE: 'write'>,), (<Scope.WRITE: 'write'>,))
    """
    if text is None:
        return SCOPES_BEFORE
    words = text.split(",")
    return tuple(scope for scope in Scope if scope in words)
