"""Logs before and after one log."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.explore.source import RecordSource
from neve.explore.trace_records import LOG_COLUMNS

if TYPE_CHECKING:
    from neve.explore.source import Context

__all__ = ["MAX_NEARBY", "read_nearby"]

MAX_NEARBY = 100  # on each side
MARGIN = timedelta(minutes=15)

# ruff: noqa: S608 - statements are made of constants, values are parameters


def read_nearby(record_id: str, at: datetime, service: str | None, limit: int, context: Context) -> dict[str, Any]:
    """Return the logs just before and just after one, within 15 minutes; `service` restricts them to one service.

    An empty `service` is that of logs without one.
    """
    source = RecordSource(context, at - MARGIN, at + MARGIN)
    only = "" if service is None else " AND coalesce(service_name, '') = $service"
    values = {"time": at.isoformat(), "id": record_id} | ({} if service is None else {"service": service})

    def read_side(compare: str, order: str) -> list[dict[str, Any]]:
        return source.rows(
            f"SELECT {LOG_COLUMNS} FROM logs WHERE (timestamp {compare} CAST($time AS TIMESTAMPTZ) OR "
            f"(timestamp = CAST($time AS TIMESTAMPTZ) AND record_id {compare} $id)){only} "
            f"ORDER BY timestamp {order}, record_id {order} LIMIT {limit}",
            values,
        )

    return {
        "record_id": record_id,
        "since": (at - MARGIN).isoformat(),
        "until": (at + MARGIN).isoformat(),
        "before": read_side("<", "DESC")[::-1],
        "after": read_side(">", "ASC"),
    }
