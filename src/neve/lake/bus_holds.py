"""Who reads a topic for a group, and who may: values in, values out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

NOBODY = ""


@dataclass(frozen=True)
class Hold:
    """Where a group is in a topic, and which of its readers has the topic until when by the store's clock."""

    topic: str
    position: int
    owner: str
    until: datetime

    def is_free(self, now: datetime) -> bool:
        """Whether anyone may take it: it was given back, or its reader has been silent for too long."""
        return self.owner == NOBODY or now >= self.until

    def may_be_of(self, reader: str, now: datetime) -> bool:
        """Whether a reader may have it from now on; one that has expired and that nobody took is still its own."""
        return self.owner == reader or self.is_free(now)

    def is_worn(self, now: datetime, whole: timedelta) -> bool:
        """Whether a third of its time has passed: whoever takes messages now is to have most of it for them."""
        return self.until - now < whole * 2 / 3
