"""The autopilot night after night."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.errors import NeveError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from neve.autopilot.job import Nightly
    from neve.autopilot.report import RunReport


def run_nightly(
    nightly: Nightly,
    tables: Sequence[str],
    tell: Callable[[RunReport], None],
    failed: Callable[[NeveError], None],
    stop: threading.Event | None = None,
) -> None:
    """Begin a run every day at its hour until SIGTERM or SIGINT; one that fails is told, and the next one comes."""
    ended = stop or _signalled()
    survey = nightly.pilot.survey
    while not ended.wait(seconds_until(survey.clock(), survey.config.start_hour)):
        try:
            tell(nightly.run(tables))
        except Exception as error:
            # Whatever it is, of the engine, the storage or the network: tomorrow is another day.
            line = (str(error).splitlines() or [""])[0]
            failed(error if isinstance(error, NeveError) else NeveError(f"{type(error).__name__}: {line}"))
        nightly = replace(nightly, steal=False)


def seconds_until(now: datetime, hour: int) -> float:
    """How long it is until the next full hour of that number.

    >>> from datetime import UTC, datetime
    >>> seconds_until(datetime(2026, 1, 1, 1, 30, tzinfo=UTC), 2), seconds_until(datetime(2026, 1, 1, 2, tzinfo=UTC), 2)
    (1800.0, 86400.0)
    """
    start = now.replace(hour=hour, minute=0, second=0, microsecond=0)
    return ((start if start > now else start + timedelta(days=1)) - now).total_seconds()


def _signalled() -> threading.Event:
    ended = threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda _number, _frame: ended.set())
    return ended
