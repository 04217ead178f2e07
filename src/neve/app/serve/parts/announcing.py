"""The announcer as a part: others note which tables they touched, and go on; here they are looked at.

A bus that is away makes this part wait, and no other.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from neve.app.serve.announcer import BusAway

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.app.serve.announcer import Announcer
    from neve.app.serve.part import Say

TURN_SECONDS = 1.0
AWAY_SECONDS = 5.0

log = structlog.get_logger("neve.work")


class Noted:
    """Names of tables that something may have been committed to; threads share it."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._changing = threading.Lock()
        self._there = threading.Event()

    def note(self, tables: Iterable[str]) -> None:
        """Have tables looked at, soon; returns at once."""
        with self._changing:
            self._names.update(dict.fromkeys(tables))
            if self._names:
                self._there.set()

    def taken(self, seconds: float) -> list[str]:
        """What was noted, in its order; none after so long."""
        self._there.wait(seconds)
        with self._changing:
            names = [*self._names]
            self._names.clear()
            self._there.clear()
        return names


@dataclass(frozen=True)
class AnnouncePart:
    """Looks at the tables that were noted, and tells the bus what was committed to them."""

    announcer: Announcer
    noted: Noted
    name: str = field(default="announcer")

    def run(self, stop: threading.Event, say: Say) -> None:
        """Announce until told to stop, and what was noted by then."""
        said = ""
        say({"bus": type(self.announcer.bus).__name__})
        while True:
            last = stop.is_set()
            names = self.noted.taken(0 if last else TURN_SECONDS)
            try:
                self.announcer.look_at(names)
                if said:
                    said = ""
                    say({"bus": type(self.announcer.bus).__name__})
            except BusAway as error:
                self.noted.note(names)
                if error.message != said:
                    said = error.message
                    log.warning("bus away", error=error.message, hint=error.hint)
                say({"error": error.message})
                stop.wait(AWAY_SECONDS)
            if last:
                return
