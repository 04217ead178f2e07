"""How long a destination is tried."""

import threading
import time

import pytest

from neve.tail.export.patience import Busy, Patience
from neve.tail.export.port import DestinationAway


def test_an_attempt_that_fails_is_made_again() -> None:
    """Until one succeeds; how many there were is told."""
    failures = [Busy("no"), Busy("not yet")]

    def attempt() -> str:
        if failures:
            raise failures.pop()
        return "taken"

    assert Patience("there", 30).run(attempt) == ("taken", 3)


def test_a_server_is_left_alone_as_long_as_it_asks() -> None:
    """And not longer than a moment more."""
    times: list[float] = []

    def attempt() -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            raise Busy("later", after=0.3)

    Patience("there", 30).run(attempt)
    assert 0.3 <= times[1] - times[0] < 1.5


def test_a_pause_that_ends_too_late_is_not_begun() -> None:
    """The destination counts as away at once, and the error says when it wants to be asked."""
    begun = time.monotonic()
    with pytest.raises(DestinationAway, match="there took nothing in 1 attempts: later") as caught:
        Patience("there", 5).run(lambda: _busy(after=3600))
    assert time.monotonic() - begun < 1
    assert caught.value.after_seconds == 3600


def test_without_time_there_is_one_attempt() -> None:
    """`retry_seconds: 0` is for those who come again anyway."""
    with pytest.raises(DestinationAway, match="in 1 attempts"):
        Patience("there", 0).run(_busy)


def test_a_pause_ends_when_the_destination_is_closed() -> None:
    """A process that is told to stop does not wait for a server that is away."""
    patience = Patience("there", 600)
    threading.Timer(0.1, patience.ended.set).start()
    begun = time.monotonic()
    with pytest.raises(DestinationAway):
        patience.run(lambda: _busy(after=60))
    assert time.monotonic() - begun < 5


def _busy(after: float | None = None) -> None:
    raise Busy("later", after=after)
