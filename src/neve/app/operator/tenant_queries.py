"""Fixed questions of one organization about its own rows, asked through the query service and within its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.query.request import Request

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from neve.query.request import Parameter
    from neve.query.service import QueryService
    from neve.state.scopes import Caller

TIMEOUT_SECONDS = 30.0
MAX_ROWS = 10_000


@dataclass(frozen=True)
class TenantQueries:
    """The rows that one caller may see. The service adds the organization to every table of a statement.

    The statements are marked in the query log, because no layout should be learned from them.
    """

    service: QueryService
    caller: Caller

    def rows(self, sql: str, **parameters: Parameter) -> list[dict[str, Any]]:
        """Return the rows of a statement, at most 10,000; raises `QueryError`."""
        request = Request(
            sql,
            self.caller.organization,
            parameters=dict(parameters),
            limit=MAX_ROWS,
            timeout_seconds=TIMEOUT_SECONDS,
            key_id=self.caller.key_id,
            is_from_page=True,
        )
        running = self.service.start(request)
        return [row for batch in running.batches() for row in batch.to_pylist()]


def choose_step(since: datetime, until: datetime, buckets: int = 60) -> int:
    """Return the seconds of a bar, so that a chart has at most about `buckets` bars.

    >>> from datetime import UTC, datetime
    >>> [choose_step(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, day, tzinfo=UTC)) for day in (2, 8)]
    [1800, 10800]
    """
    span = max(1.0, (until - since).total_seconds())
    steps = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 86_400)
    return next((step for step in steps if span / step <= buckets), 7 * 86_400)


def format_range(since: datetime, until: datetime) -> Mapping[str, str]:
    """Return the parameters of a range, as text that the engine casts."""
    return {"since": since.isoformat(), "until": until.isoformat()}
