"""The demo's autopilot: queries an hour of logs by the minute, and applies the layout that such queries need."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.app.autopilot import open_pilot
from neve.app.query.service import build_query_service
from neve.autopilot.attempt import Stage
from neve.model.properties import TARGET_FILE_SIZE_BYTES
from neve.model.signals import NAMESPACE, Signal
from neve.query.query_log import QueryLog
from neve.query.request import Request
from neve.query.service import no_limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.app.settings import Settings
    from neve.autopilot.attempt import Attempt
    from neve.autopilot.attempt_runner import AttemptRunner, Progress
    from neve.autopilot.expected_gain import ExpectedGain
    from neve.autopilot.outcome import Outcome
    from neve.autopilot.rollout.reports import CanaryTrial, StageReport
    from neve.lake.lake import Lake

TABLE = f"{NAMESPACE}.{Signal.LOGS.table}"
WINDOW = timedelta(minutes=5)
WINDOWS = 12  # an hour
FILE_BYTES = 128 * 1024  # the demo has few logs: files of the usual size would be one, which every query reads


@dataclass(frozen=True)
class TuningResult:
    """A layout, from its predicted to its measured effect; of an attempt of an earlier demo only the end is known."""

    attempt: Attempt
    outcome: Outcome | None
    queries: int = 0
    promise: ExpectedGain | None = None
    staged: StageReport | None = None
    trial: CanaryTrial | None = None
    seconds: float = 0.0

    def as_document(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        parts = {"promise": self.promise, "staged": self.staged, "trial": self.trial}
        documents = {name: part.as_document() for name, part in parts.items() if part is not None}
        delivered = self.outcome.delivered_pct if self.outcome else None
        return {"attempt": self.attempt.as_document(), "delivered_pct": delivered, **documents}


def autopilot_settings(lake: Path) -> dict[str, Any]:
    """Return the settings of the demo's autopilot.

    The minimum sizes are lowered: they would exclude all tables of the demo.
    """
    return {
        "tables": [TABLE],
        "metrics_port": 0,
        "canary_queries": 4,
        "recommend": {"min_table_bytes": 0, "payback_days": 3650},
        "propose": {"repository": str(lake / "specs")},
    }


def tune_layout(
    settings: Settings, lake: Lake, organization: str, start_unix_nano: int, say: Progress
) -> TuningResult | str:
    """Query the logs for each five minutes of an hour, and apply the matching layout once.

    Returns the reason as text if no layout is applied.
    """
    started = time.monotonic()
    with open_pilot(settings, lake, say) as pilot:
        for past in pilot.history.attempts(TABLE):
            if past.stage is Stage.MERGED:
                outcomes = {one.attempt_id: one for one in pilot.history.outcomes(TABLE)}
                return TuningResult(past, outcomes.get(past.id))
            if past.stage is not Stage.ROLLED_BACK:
                pilot.rollback(past, "a demo was interrupted")
        _run_queries(settings, lake, organization, datetime.fromtimestamp(start_unix_nano // 10**9, UTC))
        return _run_attempt(pilot, started)


def _run_attempt(pilot: AttemptRunner, started: float) -> TuningResult | str:
    """Run one attempt, step by step; a passed canary is approval enough for a demo."""
    analysis = pilot.scan.analyze()
    promises = pilot.scan.advise(TABLE, analysis)
    if not promises.gains:
        return promises.advice.reason
    promise, hot = promises.gains[0], pilot.hot(TABLE, analysis)
    attempt, staged = pilot.stage(pilot.begin(promise, promises.advice), analysis)
    attempt, trial = pilot.canary(attempt, hot)
    outcome = None
    if trial.canary.passed:
        attempt, _merged = pilot.merge(attempt, by_hand=True)
        outcome = pilot.measure(attempt, hot)
    return TuningResult(attempt, outcome, promises.advice.queries, promise, staged, trial, time.monotonic() - started)


def _run_queries(settings: Settings, lake: Lake, organization: str, start: datetime) -> None:
    """Run queries as a server does, so that the statements and their reads are in the lake's query log."""
    with lake.table(Signal.LOGS.table).transaction() as change:
        change.set_properties({TARGET_FILE_SIZE_BYTES: str(FILE_BYTES)})
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
    """Yield the statements of a user who searches for the minutes of an incident."""
    for number in range(WINDOWS):
        begin, end = (f"TIMESTAMPTZ '{(start + place * WINDOW).isoformat()}'" for place in (number, number + 1))
        during = f"timestamp >= {begin} AND timestamp < {end}"
        # S608: every part is our own.
        yield f"SELECT service_name, count(*) AS n FROM logs WHERE {during} GROUP BY service_name"  # noqa: S608
        yield f"SELECT service_name, message FROM logs WHERE {during} AND severity_number >= 17"  # noqa: S608
