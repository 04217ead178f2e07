"""What one commit touched, as it is announced on the bus."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Announcement:
    """A commit: who made it, on which table, and what it added.

    `window` is the day that its rows belong to (`2026-01-31`), empty where a table has no days; a commit that touched
    several days is announced once for each. `at` is the commit's own time in milliseconds.
    """

    table: str
    snapshot_id: int
    operation: str
    window: str
    records: int
    files: int
    bytes: int
    at: int

    @property
    def value(self) -> dict[str, Any]:
        """As the bus carries it: numbers of 64 bits as text, since not every reader of JSON keeps them."""
        return {**asdict(self), "snapshot_id": str(self.snapshot_id)}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Announcement:
        """From the bus; keys that a newer release added mean nothing here."""
        known = {name: value[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "snapshot_id": int(known["snapshot_id"])})
