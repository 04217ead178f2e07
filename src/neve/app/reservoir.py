"""Reservoir sampling wired from the settings: of OTAP folders, of the lake's tables, and samples to estimate from."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from neve.app.rollup import frozen_by_retention
from neve.app.wiring import build_documents
from neve.lake.calendar import now_utc
from neve.model.tables import LOGS_SAMPLE, SPANS_SAMPLE
from neve.reservoir.config import ReservoirConfig
from neve.reservoir.otap.job import FolderSampler
from neve.reservoir.otap.sample_reader import SampleRequest, detect_signal, read_grouping, read_sample_rows
from neve.reservoir.otap.source import count_truth_rows
from neve.reservoir.tables.job import Sampler
from neve.reservoir.tables.sample_reader import read_table_sample

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.reservoir.config import LakeSampling
    from neve.reservoir.otap.job import Progress
    from neve.reservoir.tables.job import Progress as TableProgress

SAMPLE_TABLES = (LOGS_SAMPLE.name, SPANS_SAMPLE.name)  # any other name is a folder


def build_sampler(
    settings: Settings,
    lake: Lake,
    config: ReservoirConfig,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
) -> FolderSampler:
    """Build the sampler of a folder; `steal` takes the lease of another run that is known to be dead."""
    folders = {key: resolve_folder(getattr(config, key)) for key in ("source", "target")}
    placed = config.model_copy(update=folders)
    return FolderSampler(lake, placed, build_documents(settings), steal=steal, progress=progress)


def load_sample(lake: Lake, folder: str, request: SampleRequest) -> pa.Table:
    """Return the records of a sample folder, to estimate from."""
    if folder in SAMPLE_TABLES:
        return read_table_sample(lake, folder, request)
    return read_sample_rows(resolve_folder(folder), request, lake.s3)


def load_truth(lake: Lake, folder: str, sample: str, request: SampleRequest) -> pa.Table:
    """Count the records of the full data, for the signal and the grouping of the sample."""
    signal = detect_signal(resolve_folder(sample), lake.s3)
    by = (request.by,) if request.by is not None else read_grouping(resolve_folder(sample), signal, lake.s3)
    return count_truth_rows(lake, resolve_folder(folder), ReservoirConfig(signal=signal, by=by), request)


def resolve_folder(folder: str) -> str:
    """Return the absolute path of a folder: tasks have another working directory than the command."""
    return folder if not folder or "://" in folder else os.path.abspath(folder)


def build_lake_sampler(
    settings: Settings,
    lake: Lake,
    table: str,
    config: LakeSampling,
    progress: TableProgress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
) -> Sampler:
    """Build the sampler of a table; `steal` takes the lease of another run that is known to be dead.

    Windows that retention may have deleted rows of are not sampled again.
    """
    frozen = frozen_by_retention(settings, table, now_utc())
    return Sampler(lake, table, config, build_documents(settings), frozen, steal=steal, progress=progress)
