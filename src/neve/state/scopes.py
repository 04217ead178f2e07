"""Scopes of API keys, and the caller of a request."""

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
    READ = "read"  # query
    ANNOUNCE = "announce"  # request the ingestion of files from the locations that are configured for the organization
    ADMIN = "admin"  # operate: see and change the services of the whole lake, for all organizations
    METRICS = "metrics"  # see detailed health, and metrics


# Access of an organization to its own telemetry, and the default of a key. An announcement makes the service read files
# with its own rights, and operation concerns every organization: both must be granted by name.
ALL_SCOPES = (Scope.WRITE, Scope.READ)
# Keys of releases without scopes had this access only.
LEGACY_SCOPES = (Scope.WRITE,)


SUBJECT_PREFIX = "subject:"  # of the key id of a caller with a token


@dataclass(frozen=True)
class Caller:
    """Caller of a request: organization, key and scopes. There is no key if none is required.

    The key id of a token is `subject:` and its subject, so that limits and records of keys hold for subjects too.
    """

    organization: str
    key_id: str = ""
    scopes: tuple[Scope, ...] = ALL_SCOPES
    expires_at: datetime | None = None

    @property
    def is_subject(self) -> bool:
        """True for the subject of a token."""
        return self.key_id.startswith(SUBJECT_PREFIX)

    def may(self, scope: Scope) -> bool:
        """Return whether the key has a scope. `admin` includes `metrics`.

        >>> Caller("acme", scopes=(Scope.ADMIN,)).may(Scope.METRICS), Caller("acme").may(Scope.ADMIN)
        (True, False)
        """
        return scope in self.scopes or (scope is Scope.METRICS and Scope.ADMIN in self.scopes)


def format_scopes(scopes: Iterable[Scope]) -> str:
    """Format scopes for storage and display: each once, in the order of their declaration.

    >>> format_scopes([Scope.ADMIN, Scope.READ, Scope.WRITE, Scope.READ])
    'write,read,admin'
    """
    wanted = set(scopes)
    return ",".join(scope for scope in Scope if scope in wanted)


def parse_scopes(text: str | None) -> tuple[Scope, ...]:
    """Parse stored scopes. Unknown scopes of newer releases are ignored.

    >>> parse_scopes("read"), parse_scopes(None), parse_scopes("write,fly")
    ((<Scope.READ: 'read'>,), (<Scope.WRITE: 'write'>,), (<Scope.WRITE: 'write'>,))
    """
    if text is None:
        return LEGACY_SCOPES
    words = text.split(",")
    return tuple(scope for scope in Scope if scope in words)
