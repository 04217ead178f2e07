"""Live tail: lines that commits add, in the order of their times within each poll.

Lines are found by the time of their ingestion. Each poll looks back a little, because commits of several receivers
overtake each other, and the identifiers of the lines that it saw tell which of them are new.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.logql.engine import LogWindow, run_log_query
from neve.logql.pipeline.compilation import compile_stages, run_stages
from neve.logql.storage.conditions import write_conditions
from neve.logql.storage.log_source import SELECT_LINES, to_time_window

if TYPE_CHECKING:
    from neve.logql.language.syntax import LogQuery
    from neve.logql.pipeline.entry import Entry
    from neve.logql.storage.log_source import LogReader

__all__ = ["FollowState", "Poll", "begin", "poll"]

LOOK_BACK_MICROS = 30_000_000
MAX_ROWS = 10_000  # of one poll
_END_NS = 1 << 62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FollowState:
    """Place of a tail: lines from `start_ns` on, the time of ingestion of the newest one, and identifiers near it."""

    start_ns: int
    ingested_micros: int
    seen: frozenset[str] = frozenset()

    def as_document(self) -> dict[str, Any]:
        """Return the state as JSON can express it."""
        return {"start_ns": self.start_ns, "ingested_micros": self.ingested_micros, "seen": sorted(self.seen)}

    @staticmethod
    def from_document(document: dict[str, Any]) -> FollowState:
        """Return the state of a document."""
        return FollowState(document["start_ns"], document["ingested_micros"], frozenset(document["seen"]))


@dataclass(frozen=True, slots=True)
class Poll:
    """New lines in order of time, the number of lines that were left out, and the place of the next poll."""

    entries: list[Entry]
    skipped: int
    state: FollowState


def begin(reader: LogReader, query: LogQuery, start_ns: int, now_ns: int, limit: int) -> Poll:
    """Return the newest lines since a time, and the place after them."""
    rows = _read_new(reader, query, FollowState(start_ns, now_ns // 1000 - LOOK_BACK_MICROS))
    micros = max([row["ingested_micros"] for row in rows], default=now_ns // 1000 - LOOK_BACK_MICROS)
    state = FollowState(start_ns, micros, _near(rows, micros))
    entries = run_log_query(reader, query, LogWindow(start_ns, _END_NS, False), limit)
    return Poll(sorted(entries, key=lambda one: one.time_ns), 0, state)


def poll(reader: LogReader, query: LogQuery, state: FollowState, limit: int) -> Poll:
    """Return the lines that commits have added since the last poll."""
    since = replace(state, ingested_micros=state.ingested_micros - LOOK_BACK_MICROS)
    rows = _read_new(reader, query, since)
    fresh = [row for row in rows if row["record_id"].hex() not in state.seen]
    if not fresh:
        return Poll([], 0, state)
    micros = max(row["ingested_micros"] for row in rows)
    is_cut = len(rows) == MAX_ROWS and len(fresh) == MAX_ROWS  # older lines may be new, too
    found = run_stages(compile_stages(query.stages), [reader.make(row) for row in fresh])
    entries = sorted(found, key=lambda one: one.time_ns)
    skipped = max(len(entries) - limit, 0) + (1 if is_cut else 0)
    return Poll(entries[-limit:], skipped, FollowState(state.start_ns, micros, _near(rows, micros)))


def _near(rows: list[dict[str, Any]], micros: int) -> frozenset[str]:
    return frozenset(row["record_id"].hex() for row in rows if row["ingested_micros"] >= micros - LOOK_BACK_MICROS)


def _read_new(reader: LogReader, query: LogQuery, state: FollowState) -> list[dict[str, Any]]:
    window = LogWindow(state.start_ns, _END_NS)
    bounds = to_time_window(window)
    if bounds is None:
        return []
    conditions = write_conditions(query, window)
    since = (_EPOCH + timedelta(microseconds=max(state.ingested_micros, 0))).isoformat()
    sql = (
        f"SELECT {SELECT_LINES}, record_id, epoch_us(ingested_at) AS ingested_micros FROM logs "  # noqa: S608  # parameters
        f"WHERE {conditions.sql} AND ingested_at >= TIMESTAMPTZ '{since}' AND record_id IS NOT NULL "
        f"ORDER BY ingested_at DESC LIMIT {MAX_ROWS}"
    )
    return [row for batch in reader.run(sql, conditions.parameters, bounds) for row in batch.to_pylist()]
