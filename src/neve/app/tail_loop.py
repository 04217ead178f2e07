"""Tail sampling that goes on: cycles in one thread, each destination's deliveries in another."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import structlog

from neve.app.tail import build_exporter
from neve.errors import LeaseTaken, NeveError
from neve.tail.metrics import FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.tail.export.pump import PumpResult
    from neve.tail.exporting import Exporter
    from neve.tail.job import Selector
    from neve.tail.result import CycleResult

Worker = TypeVar("Worker", "Selector", "Exporter")
MOST_SECONDS = 300  # between two attempts of something that fails, unless its turns are further apart
LAST_SECONDS = 10.0  # that deliveries under way may take at the end

log = structlog.get_logger("neve.tail")


def run_forever(
    selector: Selector,
    *,
    export: bool,
    tell: Callable[[CycleResult], None],
    exported: Callable[[list[PumpResult]], None],
    failed: Callable[[NeveError], None],
    stop: threading.Event | None = None,
) -> None:
    """Begin a cycle every so often until SIGTERM or SIGINT; what fails is told and tried again, less and less often."""
    ended = stop or _signalled()
    exporters = build_exporter(selector).apart() if export else []

    def counted(error: NeveError) -> None:
        if not isinstance(error, LeaseTaken):
            FAILURES.labels(selector.config.name).inc()
        failed(error)

    every = partial(_every, selector.config.interval_seconds, ended, counted)
    threads = [threading.Thread(target=every, args=(_delivery(one, exported),), daemon=True) for one in exporters]
    for thread in threads:
        thread.start()
    cycles = _first_steals(selector)
    every(lambda: tell(next(cycles).run()))
    for one in exporters:
        one.close()
    _end(threads, min(LAST_SECONDS, selector.config.lease_seconds))


def _end(threads: Sequence[threading.Thread], seconds: float) -> None:
    """Wait for deliveries that are under way, all of them together: the next process brings what these do not."""
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    if left := sum(thread.is_alive() for thread in threads):
        log.warning("deliveries did not end in time", destinations=left, seconds=seconds)


def _delivery(exporter: Exporter, exported: Callable[[list[PumpResult]], None]) -> Callable[[], None]:
    """A turn of a destination."""
    turns = _first_steals(exporter)
    return lambda: exported(next(turns).run())


def _first_steals(worker: Worker) -> Iterator[Worker]:
    """Whoever works in each turn; a lease is stolen in the first one alone, from whoever was dead by then."""
    later = replace(worker, steal=False) if worker.steal else worker
    return itertools.chain([worker], itertools.repeat(later))


def _every(
    seconds: float, ended: threading.Event, failed: Callable[[NeveError], None], work: Callable[[], None]
) -> None:
    failures = 0
    while True:
        try:
            work()
            failures = 0
        except LeaseTaken as error:  # who waits for another to end is ready as soon as it does
            failures = 0
            failed(error)
        except Exception as error:
            # Whatever it is, of the engine, the storage or the network: the other parts go on, and so does this one.
            failures += 1
            failed(_told(error))
        if ended.wait(pause(seconds, failures)):
            return


def pause(seconds: float, failures: int) -> float:
    """How long to wait for the next turn after some failures in a row.

    >>> [pause(30, failures) for failures in (0, 1, 2, 3, 4, 5000)], pause(600, 7)
    ([30, 30, 60, 120, 240, 300], 600)
    """
    return max(seconds, min(MOST_SECONDS, seconds * 2 ** min(failures - 1, 16))) if failures else seconds


def _told(error: Exception) -> NeveError:
    if isinstance(error, NeveError):
        return error
    line = (str(error).splitlines() or [""])[0]
    return NeveError(f"{type(error).__name__}: {line}", hint="it is tried again")


def _signalled() -> threading.Event:
    ended = threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda _number, _frame: ended.set())
    return ended
