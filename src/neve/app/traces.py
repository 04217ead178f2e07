"""Trace summaries and the service map wired from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.app.wiring import build_documents

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.lake.follower import Progress
    from neve.lake.lake import Lake
    from neve.traces.job import TraceAssembler


def build_traces(
    settings: Settings,
    lake: Lake,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
) -> TraceAssembler:
    """Build the job of a lake; `steal` takes the lease of another run that is known to be dead."""
    from neve.traces.job import TraceAssembler  # noqa: PLC0415 - readers of settings do not need it

    return TraceAssembler(lake, settings.traces, build_documents(settings), steal=steal, progress=progress)
