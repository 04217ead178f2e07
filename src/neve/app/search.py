"""Full-text search wired from the settings: the indexer, and the index that queries read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.app.wiring import build_documents
from neve.lake.calendar import now_utc
from neve.search.lookup import SearchIndex

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.search.job import Progress, SearchIndexer


def build_search(
    settings: Settings,
    lake: Lake,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
    clock: Callable[[], datetime] = now_utc,
) -> SearchIndexer:
    """Build the indexer of a lake; `steal` takes the lease of another run that is known to be dead."""
    from neve.search.job import SearchIndexer  # noqa: PLC0415 - queries only look words up

    return SearchIndexer(lake, settings.search, build_documents(settings), clock=clock, steal=steal, progress=progress)


def build_search_index(lake: Lake) -> SearchIndex:
    """Build the index that queries use to find the files that may contain a word."""
    return SearchIndex(lake)
