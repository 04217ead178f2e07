"""The autopilot wired from the settings, and its nightly loop."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.app.wiring import build_documents
from neve.autopilot.attempt_runner import AttemptRunner
from neve.autopilot.config import apply_environment
from neve.autopilot.history import History
from neve.autopilot.nightly_run import NightlyRun
from neve.autopilot.propose.proposals import Proposals, build_forge
from neve.autopilot.rollout.rollout import Rollout
from neve.autopilot.workload_scan import WorkloadScan
from neve.errors import NeveError
from neve.lake.calendar import now_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

    from neve.app.settings import Settings
    from neve.autopilot.attempt_runner import Progress
    from neve.autopilot.config import AutopilotConfig
    from neve.autopilot.nightly_run import RunReport, TableReport
    from neve.lake.lake import Lake


def autopilot_config(settings: Settings, environment: Mapping[str, str] = os.environ) -> AutopilotConfig:
    """Return the autopilot's settings.

    Old environment variables of the service are applied. Prices of the lake are used if the section has none of its
    own.
    """
    config = apply_environment(settings.autopilot, environment)
    if "prices" in config.recommend.model_fields_set:
        return config
    recommend = config.recommend.model_copy(update={"prices": settings.prices})
    return config.model_copy(update={"recommend": recommend})


@contextmanager
def open_pilot(
    settings: Settings,
    lake: Lake,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
    clock: Callable[[], datetime] = now_utc,
) -> Iterator[AttemptRunner]:
    """Open the autopilot's operations on tables; `steal` takes the leases of a run that is known to be dead."""
    config = autopilot_config(settings)
    documents = build_documents(settings)
    forge = build_forge(config.propose)
    try:
        history = History(documents)
        yield AttemptRunner(
            WorkloadScan(lake, config, history, clock),
            Rollout(lake, config.stage, history, _zorder_column, steal),
            Proposals(forge, config.propose),
            progress,
        )
    finally:
        forge.close()
        documents.close()


def build_nightly(pilot: AttemptRunner, report: Callable[[TableReport], None] = lambda _report: None) -> NightlyRun:
    """Build the nightly run."""
    return NightlyRun(pilot, pilot.history.documents, pilot.rollout.steal, report)


def _zorder_column(rows: DataFrame, columns: Sequence[str]) -> Column:
    from neve.compact.execution.spark_rewriter import place_on_curve  # noqa: PLC0415 - Spark's worth of imports

    return place_on_curve(rows, columns)


def run_nightly(
    nightly: NightlyRun,
    tables: Sequence[str],
    tell: Callable[[RunReport], None],
    failed: Callable[[NeveError], None],
    stop: threading.Event | None = None,
) -> None:
    """Start a run every day at its hour until SIGTERM or SIGINT.

    A failed run is reported, and the next one starts as usual.
    """
    ended = stop or _stop_on_signals()
    survey = nightly.runner.scan
    while not ended.wait(seconds_until(survey.clock(), survey.config.start_hour)):
        try:
            tell(nightly.run(tables))
        except Exception as error:
            # Any error of the engine, the storage or the network: the next nightly run tries again.
            line = (str(error).splitlines() or [""])[0]
            failed(error if isinstance(error, NeveError) else NeveError(f"{type(error).__name__}: {line}"))
        nightly = replace(nightly, steal=False)


def seconds_until(now: datetime, hour: int) -> float:
    """Return the seconds until the given hour of the day comes next.

    >>> from datetime import UTC, datetime
    >>> seconds_until(datetime(2026, 1, 1, 1, 30, tzinfo=UTC), 2), seconds_until(datetime(2026, 1, 1, 2, tzinfo=UTC), 2)
    (1800.0, 86400.0)
    """
    start = now.replace(hour=hour, minute=0, second=0, microsecond=0)
    return ((start if start > now else start + timedelta(days=1)) - now).total_seconds()


def _stop_on_signals() -> threading.Event:
    ended = threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda _number, _frame: ended.set())
    return ended
