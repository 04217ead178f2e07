"""A part, something that runs for as long as the service does, and the states of its life."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading

Say = Callable[[Mapping[str, object]], None]


class PartState(StrEnum):
    """Where a part is in its life."""

    CREATED = "created"
    STARTED = "started"  # it gets ready
    RUNNING = "running"
    DRAINING = "draining"  # it was told to stop, and finishes what it has begun
    STOPPED = "stopped"
    FAILED = "failed"  # it waits to be started again, unless it was told to stop

    @property
    def is_active(self) -> bool:
        """Whether the part is at work, and has something to finish when it is told to stop."""
        return self in {PartState.STARTED, PartState.RUNNING}


class Part(Protocol):
    """Something that runs in a thread of its own. What it raises is reported, and it is run again a little later."""

    @property
    def name(self) -> str:
        """What it is called, one of a kind in its process."""

    def run(self, stop: threading.Event, say: Say) -> None:
        """Run until the event is set, then finish what was begun and return; returning before is a failure.

        `say` keeps what is worth telling about it, values of JSON, in the place of what it said before. A part is
        started until it says something for the first time, and running from then on. One that says an `error` is ill,
        though it runs, until it says something without one.
        """
