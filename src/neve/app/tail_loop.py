"""Tail sampling that goes on: cycles in one thread, each destination's deliveries in another."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

from neve.app.tail import build_exporter
from neve.errors import NeveError

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.tail.export.pump import PumpResult
    from neve.tail.exporting import Exporter
    from neve.tail.job import Selector
    from neve.tail.result import CycleResult


def run_forever(
    selector: Selector,
    *,
    export: bool,
    tell: Callable[[CycleResult], None],
    exported: Callable[[list[PumpResult]], None],
    failed: Callable[[NeveError], None],
    stop: threading.Event | None = None,
) -> None:
    """Begin a cycle every so often until SIGTERM or SIGINT; what fails is told and tried again with the next."""
    ended = stop or _signalled()
    exporters = build_exporter(selector).apart() if export else []
    threads = [
        threading.Thread(target=_deliver, args=(one, selector, ended, exported, failed), daemon=True)
        for one in exporters
    ]
    for thread in threads:
        thread.start()
    _every(selector.config.interval_seconds, ended, lambda: tell(selector.run()), failed)
    for one in exporters:
        one.close()
    for thread in threads:
        thread.join(timeout=selector.config.lease_seconds)


def _deliver(
    exporter: Exporter,
    selector: Selector,
    ended: threading.Event,
    exported: Callable[[list[PumpResult]], None],
    failed: Callable[[NeveError], None],
) -> None:
    _every(selector.config.interval_seconds, ended, lambda: exported(exporter.run()), failed)


def _every(
    seconds: float, ended: threading.Event, work: Callable[[], None], failed: Callable[[NeveError], None]
) -> None:
    while True:
        try:
            work()
        except NeveError as error:
            failed(error)
        if ended.wait(seconds):
            return


def _signalled() -> threading.Event:
    ended = threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda _number, _frame: ended.set())
    return ended
