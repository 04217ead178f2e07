"""The autopilot as the settings describe it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from neve.app.wiring import build_documents
from neve.autopilot.config import with_environment
from neve.autopilot.job import Nightly
from neve.autopilot.journal import History
from neve.autopilot.pilot import Pilot
from neve.autopilot.propose.proposals import Proposals, build_forge
from neve.autopilot.rollout import Rollout
from neve.autopilot.stage.stager import Stager
from neve.autopilot.survey import Survey
from neve.lake.calendar import now_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

    from neve.app.settings import Settings
    from neve.autopilot.config import AutopilotConfig
    from neve.autopilot.pilot import Progress
    from neve.autopilot.report import TableReport
    from neve.lake.lake import Lake


def autopilot_config(settings: Settings, environment: Mapping[str, str] = os.environ) -> AutopilotConfig:
    """What is set, with the service's old variables, and with the prices of the whole lake where it has none."""
    config = with_environment(settings.autopilot, environment)
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
) -> Iterator[Pilot]:
    """All that the autopilot does with tables; `steal` takes the leases of a run that is known to be dead."""
    config = autopilot_config(settings)
    documents = build_documents(settings)
    forge = build_forge(config.propose)
    try:
        yield Pilot(
            Survey(lake, config, History(documents), clock),
            Rollout(Stager(lake, config.stage, documents, _curve), steal),
            Proposals(forge, config.propose),
            progress,
        )
    finally:
        forge.close()
        documents.close()


def build_nightly(pilot: Pilot, told: Callable[[TableReport], None] = lambda _report: None) -> Nightly:
    """The nightly run."""
    rollout = pilot.rollout
    return Nightly(pilot, rollout.stager.documents, rollout.steal, told)


def _curve(rows: DataFrame, columns: Sequence[str]) -> Column:
    from neve.compact.zorder import place_on_curve  # noqa: PLC0415 - Spark's worth of imports

    return place_on_curve(rows, columns)
