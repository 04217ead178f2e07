"""Sampling of the lake's own tables as the settings describe it: what retention may have taken is not sampled anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.app.rollup import frozen_by_retention
from neve.app.wiring import build_documents
from neve.lake.calendar import now_utc
from neve.reservoir.lake.job import LakeSampler

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.reservoir.lake.config import LakeSampling
    from neve.reservoir.lake.job import Progress


def build_lake_sampler(
    settings: Settings,
    lake: Lake,
    table: str,
    config: LakeSampling,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
) -> LakeSampler:
    """The sampler of a table; `steal` takes the lease of another run that is known to be dead."""
    frozen = frozen_by_retention(settings, table, now_utc())
    return LakeSampler(lake, table, config, build_documents(settings), frozen, steal=steal, progress=progress)
