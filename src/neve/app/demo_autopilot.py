"""The demo's autopilot: an hour of logs is asked for its minutes, and gets the layout that such questions need."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.app.autopilot import build_nightly, open_pilot
from neve.app.query import build_query_service
from neve.model.columns import TARGET_FILE_SIZE_BYTES
from neve.model.signals import Signal
from neve.model.tables import NAMESPACE
from neve.query.log import QueryLog
from neve.query.request import Request
from neve.query.service import no_limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.app.settings import Settings
    from neve.autopilot.pilot import Progress
    from neve.autopilot.report import RunReport
    from neve.lake.lake import Lake

TABLE = f"{NAMESPACE}.{Signal.LOGS.table}"
WINDOW = timedelta(minutes=5)
FILE_BYTES = 128 * 1024  # the demo's logs stand for many: files of the usual size would be one


def autopilot_settings(lake: Path) -> dict[str, Any]:
    """What the demo's autopilot may do alone: everything that its canary has proven."""
    kinds = ["partition", "sort", "zorder", "bloom", "file_size"]
    return {
        "tables": [TABLE],
        "metrics_port": 0,
        "canary_queries": 6,
        "recommend": {"min_table_bytes": 0, "payback_days": 365},  # a table so small saves little a day
        "propose": {
            "repository": str(lake / "specs"),
            "auto_merge": {"enabled": True, "kinds": kinds, "least_reduction_pct": 30},
        },
    }


def tune(settings: Settings, lake: Lake, organization: str, start_unix_nano: int, say: Progress) -> RunReport:
    """Ask the logs for each five minutes of an hour, then let the autopilot look; once, for the layout then settles."""
    with open_pilot(settings, lake, say) as pilot:
        if not pilot.history.attempts(TABLE):
            with lake.table(Signal.LOGS.table).transaction() as change:
                change.set_properties({TARGET_FILE_SIZE_BYTES: str(FILE_BYTES)})
            _ask(settings, lake, organization, datetime.fromtimestamp(start_unix_nano // 10**9, UTC))
        return build_nightly(pilot).run()


def is_tuned(lake: Lake, table: str) -> bool:
    """Whether a table's files are as small as the demo wants them, so that compaction is not to make them one again."""
    return lake.table(table).properties.get(TARGET_FILE_SIZE_BYTES) == str(FILE_BYTES)


def _ask(settings: Settings, lake: Lake, organization: str, start: datetime) -> None:
    log = QueryLog(lake)
    service = build_query_service(settings, lake, limits=no_limits, log=log)
    try:
        for statement in _statements(start):
            for _batch in service.start(Request(statement, organization)).batches():
                pass
    finally:
        service.close()
        log.close()


def _statements(start: datetime) -> Iterator[str]:
    """What someone asks who looks for the minutes in which something broke."""
    for number in range(12):
        begin, end = (f"TIMESTAMPTZ '{(start + place * WINDOW).isoformat()}'" for place in (number, number + 1))
        during = f"timestamp >= {begin} AND timestamp < {end}"
        # S608: every part is our own.
        yield f"SELECT service_name, count(*) AS n FROM logs WHERE {during} GROUP BY service_name"  # noqa: S608
        yield f"SELECT service_name, message FROM logs WHERE {during} AND severity_number >= 17"  # noqa: S608
