"""Rules over the lake: series come from the query service, for one organization."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from neve.app.promql import open_series
from neve.app.query import build_query_service
from neve.query.service import no_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.promql.series import SeriesSource

__all__ = ["open_rule_series"]


@contextmanager
def open_rule_series(settings: Settings, lake: Lake, organization: str) -> Iterator[SeriesSource]:
    """Open the series of one organization for the operator, who has no limits."""
    service = build_query_service(settings, lake, limits=no_limits)
    try:
        yield open_series(service, organization)
    finally:
        service.close()
