"""Jobs that derive tables from telemetry, wired from the settings: series and streams, traces and the service map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.app.wiring import build_documents

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.lake.follower import Progress
    from neve.lake.lake import Lake
    from neve.series.job import SeriesIndexer
    from neve.traces.job import TraceAssembler


def build_series(
    settings: Settings,
    lake: Lake,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
) -> SeriesIndexer:
    """Build the job of series and streams; `steal` takes the lease of another run that is known to be dead."""
    from neve.series.job import SeriesIndexer  # noqa: PLC0415 - readers of settings do not need it

    return SeriesIndexer(lake, settings.series, build_documents(settings), steal=steal, progress=progress)


def build_traces(
    settings: Settings,
    lake: Lake,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
) -> TraceAssembler:
    """Build the job of trace summaries and the service map; `steal` as above."""
    from neve.traces.job import TraceAssembler  # noqa: PLC0415 - as above

    return TraceAssembler(lake, settings.traces, build_documents(settings), steal=steal, progress=progress)
