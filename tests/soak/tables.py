"""What is in the tables when all is over, as DuckDB reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.lake.config import S3Config
from neve.lake.duckdb import connect, scan_sql
from neve.model.signals import Signal

if TYPE_CHECKING:
    from neve.lake.lake import Lake
    from tests.soak.tally import Keys

# What `Tape.keys` says of a record.
KEYS = {
    Signal.TRACES: "('0x' || hex(span_id))::BIGINT",
    Signal.LOGS: "time_unix_nano",
    Signal.METRICS: "time_unix_nano",
}
WRONG_WINDOWS = """
WITH told AS (
  SELECT date_trunc('minute', timestamp) AS w, count(*) AS n FROM {metrics} WHERE timestamp < {end} GROUP BY w),
rolled AS (SELECT timestamp AS w, sum(points) AS n FROM {metrics_1m} WHERE timestamp < {end} GROUP BY w)
SELECT coalesce(sum(abs(coalesce(told.n, 0) - coalesce(rolled.n, 0))), 0) FROM told FULL JOIN rolled USING (w)"""
UNDECIDED = """
SELECT count(*) FROM (SELECT DISTINCT trace_id FROM {spans}) ANTI JOIN {trace_decisions} USING (trace_id)"""
DECIDED_TWICE = """
SELECT count(*) FROM (SELECT trace_id, revision FROM {trace_decisions} GROUP BY ALL HAVING count(*) > 1)"""
QUARANTINED = "SELECT reason || ': ' || detail || ' (' || count(*) || ')' FROM {quarantine} GROUP BY reason, detail"


def keys(lake: Lake, signal: Signal) -> Keys:
    """What tells the records of a table apart, one for each row."""
    rows = ask(lake, f"SELECT {KEYS[signal]} AS key FROM {{{signal.table}}}")
    return np.asarray(rows["key"], np.int64)


def rollup_wrong(lake: Lake, end: float) -> int:
    """How many points the minutes before a moment count too few or too many."""
    return number(lake, WRONG_WINDOWS.replace("{end}", f"to_timestamp({end})"))


def undecided(lake: Lake) -> int:
    """How many traces nothing was decided about."""
    return number(lake, UNDECIDED)


def decided_twice(lake: Lake) -> int:
    """How many decisions are there more than once."""
    return number(lake, DECIDED_TWICE)


def quarantined(lake: Lake) -> list[str]:
    """Why records are in quarantine; nothing that a soak sends should be there."""
    return [str(words) for words in next(iter(ask(lake, QUARANTINED).values()))]


def number(lake: Lake, sql: str) -> int:
    """The one number that a question has for an answer."""
    return int(next(iter(ask(lake, sql).values()))[0])


def ask(lake: Lake, sql: str) -> dict[str, np.ndarray]:
    """The answer to a question in which {table} stands for a table."""
    names = [name for name in lake.table_names() if f"{{{name}}}" in sql]
    for name in names:
        sql = sql.replace(f"{{{name}}}", scan_sql(lake.table(name)))
    with connect(S3Config(), on_s3=False, memory_limit="2GB") as connection:
        answer: dict[str, np.ndarray] = connection.execute(sql).fetchnumpy()
        return answer
