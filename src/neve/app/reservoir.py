"""Sampling as the settings describe it."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from neve.app.wiring import build_documents
from neve.model.tables import LOGS_SAMPLE, SPANS_SAMPLE
from neve.reservoir.config import ReservoirConfig
from neve.reservoir.lake.sample import lake_sample_rows
from neve.reservoir.star.job import StarSampler
from neve.reservoir.star.sample import Asked, grouped_by, sample_rows, signal_of
from neve.reservoir.star.truth import truth_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.reservoir.star.job import Progress

SAMPLES = (LOGS_SAMPLE.name, SPANS_SAMPLE.name)  # tables that are samples: what else is named is a folder


def build_sampler(
    settings: Settings,
    lake: Lake,
    config: ReservoirConfig,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
) -> StarSampler:
    """The sampler of a folder; `steal` takes the lease of another run that is known to be dead."""
    folders = {key: located(getattr(config, key)) for key in ("source", "target")}
    placed = config.model_copy(update=folders)
    return StarSampler(lake, placed, build_documents(settings), steal=steal, progress=progress)


def load_sample(lake: Lake, folder: str, asked: Asked) -> pa.Table:
    """The kept records of a sample folder, to estimate from."""
    if folder in SAMPLES:
        return lake_sample_rows(lake, folder, asked)
    return sample_rows(located(folder), asked, lake.s3)


def load_truth(lake: Lake, folder: str, sample: str, asked: Asked) -> pa.Table:
    """The records of the full data, counted, for the signal that the sample is of and by what it was grouped by."""
    signal = signal_of(located(sample), lake.s3)
    by = (asked.by,) if asked.by is not None else grouped_by(located(sample), signal, lake.s3)
    return truth_rows(lake, located(folder), ReservoirConfig(signal=signal, by=by), asked)


def located(folder: str) -> str:
    """A folder by its whole path: tasks work elsewhere than the command."""
    return folder if not folder or "://" in folder else os.path.abspath(folder)
