"""Who holds a lease, and who may take it: values in, values out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

NOBODY = ""


@dataclass(frozen=True)
class Holder:
    """One taking of a lease. Times are the store's; `epoch` grows with each taking, whoever takes it."""

    owner: str
    epoch: int
    since: datetime
    until: datetime
    what: str = ""
    expired: bool = False

    @classmethod
    def of(cls, document: Mapping[str, Any] | None, now: datetime) -> Holder | None:
        """Whom a document names, and whether the time is over; none where it was released, or never taken."""
        if document is None or document["owner"] == NOBODY:
            return None
        since, until = (datetime.fromisoformat(document[name]) for name in ("since", "until"))
        return cls(document["owner"], document["epoch"], since, until, document["what"], expired=now >= until)

    @property
    def document(self) -> dict[str, object]:
        """What the store keeps."""
        return {
            "owner": self.owner,
            "epoch": self.epoch,
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "what": self.what,
        }

    def is_of(self, other: Holder) -> bool:
        """Whether both are the same taking, renewed or not."""
        return (self.owner, self.epoch) == (other.owner, other.epoch)

    def renewed(self, now: datetime, seconds: float) -> Holder:
        """The same taking, for so long from now."""
        return replace(self, until=now + timedelta(seconds=seconds), expired=False)

    def released(self) -> Holder:
        """Nobody: what is left of a taking, so that the next one gets a larger epoch."""
        return replace(self, owner=NOBODY, what="")


@dataclass(frozen=True)
class Taken:
    """The lease may be taken, under this epoch; `before` held it and did not release it."""

    epoch: int
    before: Holder | None = None


@dataclass(frozen=True)
class Refused:
    """Another one holds the lease."""

    holder: Holder


def decide(current: Mapping[str, Any] | None, owner: str, now: datetime, *, steal: bool = False) -> Taken | Refused:
    """Whether an owner may take a lease of which the store has this document.

    An owner may take again what it holds: it is the same worker, started anew.
    """
    holder = Holder.of(current, now)
    if holder is not None and holder.owner != owner and not holder.expired and not steal:
        return Refused(holder)
    last: int = current["epoch"] if current is not None else 0
    # The clock is the floor, so that epochs grow even where a store has lost its documents.
    return Taken(max(last + 1, int(now.timestamp() * 1000)), holder)
