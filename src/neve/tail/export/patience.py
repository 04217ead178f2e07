"""How long a destination is tried, and how long it is left alone between two attempts."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, TypeVar

import structlog
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_any,
    stop_before_delay,
    stop_when_event_set,
    wait_random_exponential,
)
from tenacity.nap import sleep_using_event

from neve.tail.export.port import DestinationAway

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenacity import RetryCallState

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30

T = TypeVar("T")

log = structlog.get_logger(__name__)
_back_off = wait_random_exponential(multiplier=FIRST_PAUSE_SECONDS, max=LONGEST_PAUSE_SECONDS, min=0.05)


class Busy(Exception):
    """Raised by an attempt that may go better later; `after` is when the destination wants to be asked, in seconds."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.after = after


@dataclass(frozen=True)
class Patience:
    """Attempts over some seconds, with growing random pauses; a pause that would end later is not begun."""

    destination: str
    retry_seconds: float
    ended: Event = field(default_factory=Event)

    def run(self, attempt: Callable[[], T]) -> tuple[T, int]:
        """What the first attempt that is not `Busy` gives, and which one that was; raises `DestinationAway`."""
        attempts = Retrying(
            retry=retry_if_exception_type(Busy),
            stop=stop_any(stop_before_delay(self.retry_seconds), stop_when_event_set(self.ended)),
            wait=_pause,
            sleep=sleep_using_event(self.ended),
            before_sleep=self._tell,
            reraise=True,
        )
        try:
            return attempts(attempt), int(attempts.statistics["attempt_number"])
        except Busy as busy:
            number = attempts.statistics["attempt_number"]
            raise DestinationAway(
                f"the destination {self.destination} took nothing in {number} attempts: {busy.message}",
                hint="what was kept for it waits, and is brought when it is back",
                after_seconds=busy.after,
            ) from busy

    def _tell(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        log.warning(
            "destination is asked again",
            destination=self.destination,
            attempt=state.attempt_number,
            pause_seconds=round(state.upcoming_sleep, 1),
            error=str(error),
        )


def _pause(state: RetryCallState) -> float:
    """The time that the destination asked for, and a random one, so that not all who wait come at once."""
    busy = state.outcome.exception() if state.outcome else None
    return _back_off(state) + (busy.after or 0.0 if isinstance(busy, Busy) else 0.0)
