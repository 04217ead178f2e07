"""Full-text search as the settings describe it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.app.wiring import build_documents
from neve.lake.calendar import now_utc
from neve.search.job import Search
from neve.search.lookup import SearchIndex

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.search.job import Progress


def build_search(
    settings: Settings,
    lake: Lake,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
    clock: Callable[[], datetime] = now_utc,
) -> Search:
    """The indexing of a lake; `steal` takes the lease of another run that is known to be dead."""
    return Search(lake, settings.search, build_documents(settings), clock=clock, steal=steal, progress=progress)


def build_search_index(lake: Lake) -> SearchIndex:
    """What queries ask which files may hold a word."""
    return SearchIndex(lake)
