"""How long a destination is tried."""

import threading

import pytest

from neve.http_client import INITIAL_BACKOFF_SECONDS, RetryableError
from neve.tail.export.destination import DestinationUnavailable, RetryPolicy


def test_an_attempt_that_fails_is_made_again() -> None:
    """Until one succeeds; how many there were is told."""
    failures = [RetryableError("no"), RetryableError("not yet")]

    def attempt() -> str:
        if failures:
            raise failures.pop()
        return "taken"

    assert RetryPolicy("there", 30).run(attempt) == ("taken", 3)


class Pauses(threading.Event):
    """An event that remembers how long it was waited for, and takes no time."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once."""
        self.seconds.append(timeout)
        return self.is_set()


def test_a_server_is_left_alone_as_long_as_it_asks() -> None:
    """And not longer than a moment more."""
    busy, pauses = [RetryableError("later", after=7)], Pauses()

    def attempt() -> None:
        if busy:
            raise busy.pop()

    RetryPolicy("there", 30, pauses).run(attempt)
    [pause] = pauses.seconds
    assert pause is not None
    assert 7 <= pause <= 7 + INITIAL_BACKOFF_SECONDS


def test_a_pause_that_ends_too_late_is_not_begun() -> None:
    """The destination counts as away at once, and the error says when it wants to be asked."""
    pauses = Pauses()
    with pytest.raises(DestinationUnavailable, match="there accepted nothing in 1 attempts: later") as caught:
        RetryPolicy("there", 5, pauses).run(lambda: _busy(after=3600))
    assert pauses.seconds == []
    assert caught.value.after_seconds == 3600


def test_without_time_there_is_one_attempt() -> None:
    """`retry_seconds: 0` is for those who come again anyway."""
    with pytest.raises(DestinationUnavailable, match="in 1 attempts"):
        RetryPolicy("there", 0).run(_busy)


def test_a_pause_ends_when_the_destination_is_closed() -> None:
    """A process that is told to stop does not wait for a server that is away."""
    patience = RetryPolicy("there", 7200)
    threading.Timer(0.1, patience.stop.set).start()
    with pytest.raises(DestinationUnavailable, match="later"):
        patience.run(lambda: _busy(after=3600))


def _busy(after: float | None = None) -> None:
    raise RetryableError("later", after=after)
