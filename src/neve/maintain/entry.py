"""One line of a plan: a thing, what becomes of it, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A snapshot, a file, a tag: what is done with it, also where that is nothing, and the reason."""

    action: str
    what: str
    reason: str
    bytes: int = 0


KEEP = "keep"
