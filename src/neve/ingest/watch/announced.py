"""What an event announces: files that are there, files that have gone, and what can't be taken in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.ingest.files.formats import EXTENSIONS, read_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from neve.ingest.files.formats import Format
    from neve.model.signals import Signal

NAMES_NO_FORMAT = f"has no ending that says its format; known are {', '.join(EXTENSIONS)}, each also with .gz or .zst"


@dataclass(frozen=True)
class Announced:
    """A file, by its path or s3:// address, and what the event says of it; all that it says may be wrong or old."""

    path: str
    size: int | None = None
    etag: str | None = None
    event_time: datetime | None = None
    removed: bool = False
    signal: Signal | None = None
    format: Format | None = None
    organization: str | None = None


@dataclass(frozen=True)
class Refused:
    """A part of an event that is not taken in: which file, or which place in the event, and why."""

    what: str
    reason: str
    organization: str | None = None


@dataclass(frozen=True)
class Event:
    """One event document: where it stood, whose it is, and what its topic says of the files that it names."""

    source: str
    position: int
    payload: bytes
    organization_id: str
    signal: Signal | None = None
    may_name_organization: bool = False
    received_unix_nano: int = 0

    def owner(self, part: Announced | Refused) -> str:
        """The organization that a file of the event is ingested for; only trusted senders may name another."""
        return (self.may_name_organization and part.organization) or self.organization_id


@dataclass(frozen=True)
class Announcements:
    """What one event holds."""

    announced: tuple[Announced, ...] = ()
    refused: tuple[Refused, ...] = ()

    @property
    def to_ingest(self) -> tuple[Announced, ...]:
        """The files that are there to be read."""
        return tuple(file for file in self.announced if not file.removed)


# Why a file is not taken in, or nothing.
Filter = Callable[[Announced], str | None]


def tells_format(file: Announced) -> str | None:
    """A filter: someone must say how the file is written, its name or the event."""
    return None if file.format or read_name(file.path).format else NAMES_NO_FORMAT


def sift(files: Iterable[Announced | Refused], filters: Iterable[Filter]) -> Announcements:
    """Keep the files that no filter objects to; a file that has gone needs no permission."""
    announced: list[Announced] = []
    refused: list[Refused] = []
    checks = tuple(filters)
    for file in files:
        if isinstance(file, Refused):
            refused.append(file)
            continue
        reason = None if file.removed else next((why for check in checks if (why := check(file))), None)
        if reason is None:
            announced.append(file)
        else:
            refused.append(Refused(file.path, reason, file.organization))
    return Announcements(tuple(announced), tuple(refused))
