"""Sampling as the settings describe it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neve.app.wiring import build_documents
from neve.reservoir.star.job import StarSampler
from neve.reservoir.star.sample import Asked, sample_rows, signal_of
from neve.reservoir.star.truth import truth_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.star.job import Progress


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
    return sample_rows(located(folder), asked, lake.s3)


def load_truth(lake: Lake, folder: str, sample: str, asked: Asked) -> pa.Table:
    """The records of the full data, counted, for the signal that the sample is of."""
    return truth_rows(lake, located(folder), signal_of(located(sample), lake.s3), asked)


def located(folder: str) -> str:
    """A folder by its whole path: tasks work elsewhere than the command."""
    return folder if not folder or "://" in folder else str(Path(folder).absolute())
