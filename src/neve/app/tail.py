"""Tail sampling wired from the settings, and its loop: one thread for cycles, one for each destination."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from neve.app.wiring import build_documents, build_source_lake
from neve.errors import LeaseTaken, NeveError
from neve.lake.calendar import now_utc
from neve.logger import get_logger
from neve.model.decision_tables import DECISIONS
from neve.tail.claims import NoClaims, RedisClaims
from neve.tail.export.exporter import Exporter, build_destination
from neve.tail.export.kept_spans import KeptSpans
from neve.tail.metrics import FAILURES
from neve.tail.policy.config.loader import build_default_policies, read_policy_file
from neve.tail.selector import TailSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.state.documents import Documents
    from neve.tail.claims import Claims
    from neve.tail.config import TailConfig
    from neve.tail.decisions import CycleResult
    from neve.tail.export.destination import DeliveryResult
    from neve.tail.policy.tree import PolicySet
    from neve.tail.selector import Progress


def build_policies(config: TailConfig, path: str | None = None) -> PolicySet:
    """Load the policies of a file, of the configured file, or the default ones."""
    file = path or config.policies
    if not file:
        return build_default_policies(config.slow_ms, config.percentage, config.semantics)
    return read_policy_file(file, config.semantics)


def build_selector(  # noqa: PLR0913 - what a run may have otherwise
    settings: Settings,
    lake: Lake,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    policies: str | None = None,
    steal: bool = False,
    clock: Callable[[], datetime] = now_utc,
    documents: Documents | None = None,
) -> TailSelector:
    """Build the selector of a lake; `steal` takes the lease of another one that is known to be dead."""
    config = settings.tail
    return TailSelector(
        lake=lake,
        spans=build_source_lake(settings, lake),
        config=config,
        policies=build_policies(config, policies),
        documents=documents or build_documents(settings),
        claims=build_claims(config),
        clock=clock,
        steal=steal,
        progress=progress,
    )


def build_claims(config: TailConfig) -> Claims:
    """Build the claims, by which one selector owns a trace."""
    if not config.claims:
        return NoClaims(config.name)
    return RedisClaims(config.claims, config.name, config.trace_ttl_seconds)


def build_exporter(selector: TailSelector) -> Exporter:
    """Build the exporter that delivers sampled traces to their destinations."""
    lake, config = selector.lake, selector.config
    destinations = [build_destination(one, lake) for one in config.export.destinations]
    kept = KeptSpans(lake, selector.source, config, lake.table(DECISIONS.name))
    return Exporter(kept, selector.documents, destinations, selector.steal)


Worker = TypeVar("Worker", "TailSelector", "Exporter")
MOST_SECONDS = 300  # longest backoff, unless the interval is longer
LAST_SECONDS = 10.0  # time limit for deliveries in progress at the end

log = get_logger("neve.tail")


def run_forever(
    selector: TailSelector,
    *,
    export: bool,
    tell: Callable[[CycleResult], None],
    exported: Callable[[list[DeliveryResult]], None],
    failed: Callable[[NeveError], None],
    stop: threading.Event | None = None,
) -> None:
    """Start a cycle at each interval until SIGTERM or SIGINT; a failure is logged and retried with backoff."""
    ended = stop or _stop_on_signals()
    exporters = build_exporter(selector).split_by_destination() if export else []

    def count_failure(error: NeveError) -> None:
        if not isinstance(error, LeaseTaken):
            FAILURES.labels(selector.config.name).inc()
        failed(error)

    every = partial(_repeat, selector.config.interval_seconds, ended, count_failure)
    threads = [threading.Thread(target=every, args=(_delivery_turn(one, exported),), daemon=True) for one in exporters]
    for thread in threads:
        thread.start()
    cycles = _steal_once(selector)
    every(lambda: tell(next(cycles).run()))
    for one in exporters:
        one.close()
    _join_deliveries(threads, min(LAST_SECONDS, selector.config.lease_seconds))


def _join_deliveries(threads: Sequence[threading.Thread], seconds: float) -> None:
    """Wait for all deliveries in progress together; the next process delivers the rest."""
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    if left := sum(thread.is_alive() for thread in threads):
        log.warning("deliveries did not end in time", destinations=left, seconds=seconds)


def _delivery_turn(exporter: Exporter, exported: Callable[[list[DeliveryResult]], None]) -> Callable[[], None]:
    """Return a function that runs one delivery to a destination."""
    turns = _steal_once(exporter)
    return lambda: exported(next(turns).run())


def _steal_once(worker: Worker) -> Iterator[Worker]:
    """Yield the worker of each turn; only the first one steals the lease, from a holder that was dead by then."""
    later = replace(worker, steal=False) if worker.steal else worker
    return itertools.chain([worker], itertools.repeat(later))


def _repeat(
    seconds: float, ended: threading.Event, failed: Callable[[NeveError], None], work: Callable[[], None]
) -> None:
    failures = 0
    while True:
        try:
            work()
            failures = 0
        except LeaseTaken as error:  # on standby: ready as soon as the other process ends
            failures = 0
            failed(error)
        except Exception as error:
            # Any error of the engine, the storage or the network: the other threads go on, and this one retries.
            failures += 1
            failed(_as_neve_error(error))
        if ended.wait(backoff_seconds(seconds, failures)):
            return


def backoff_seconds(seconds: float, failures: int) -> float:
    """Return the seconds until the next turn after some consecutive failures.

    >>> [backoff_seconds(30, failures) for failures in (0, 1, 2, 3, 4, 5000)], backoff_seconds(600, 7)
    ([30, 30, 60, 120, 240, 300], 600)
    """
    return max(seconds, min(MOST_SECONDS, seconds * 2 ** min(failures - 1, 16))) if failures else seconds


def _as_neve_error(error: Exception) -> NeveError:
    if isinstance(error, NeveError):
        return error
    line = (str(error).splitlines() or [""])[0]
    return NeveError(f"{type(error).__name__}: {line}", hint="it is tried again")


def _stop_on_signals() -> threading.Event:
    ended = threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda _number, _frame: ended.set())
    return ended
