"""The truth beside an estimate: the full data counted on Spark, by what the estimate is told by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.otap.tables import schema
from neve.reservoir.config import ReservoirConfig
from neve.reservoir.star.decide import default_rows
from neve.reservoir.star.plan import Turn
from neve.reservoir.star.sample import ALIASES
from neve.reservoir.star.source import Source
from neve.reservoir.star.views import open_views, session_for
from neve.reservoir.star.weights import WEIGHTS, attributes_of, weights_view
from neve.reservoir.window import NANOS, Window

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from neve.lake.lake import Lake
    from neve.reservoir.star.sample import Asked

DAY = 86_400
NUMBER = "coalesce(double, CAST(int AS DOUBLE), try_cast(str AS DOUBLE))"


def truth_rows(lake: Lake, folder: str, signal: str, asked: Asked) -> pa.Table:
    """How many records there are of each group (and value), as `neve.reservoir.estimate.truth.Truth.of` takes them."""
    source = Source.of(lake, folder, signal)
    files = source.looked_into(DAY, {}, lambda _step, _done, _total: None)
    starts = [start for file in files for start, _count in file.windows]
    first = _nanos(asked.since) if asked.since else min(starts, default=0)
    last = _nanos(asked.until) if asked.until else max(starts, default=0) + DAY * NANOS
    turn = Turn(Window(first, max(1, (last - first) // NANOS)), tuple(files), "the whole")
    session = session_for(lake.spark)
    config = ReservoirConfig(signal=signal, by=(asked.by or "service.name",))
    open_views(session, signal, turn, source.parts_of(turn), lake.s3)
    weights_view(session, config).createOrReplaceTempView(WEIGHTS)
    rows = f"({default_rows(config)})"
    if asked.of is None:
        return session.sql(f"SELECT group, sum(weight) AS count FROM {rows} GROUP BY group").toArrow()
    column = ALIASES.get(asked.of, asked.of)
    if column in schema(signal).names:
        values = f"SELECT _part_id, id, CAST({column} AS DOUBLE) AS value FROM {signal}"
    else:
        key = asked.of.replace("\\", "\\\\").replace("'", "\\'")
        own = attributes_of(signal)
        values = (
            f"SELECT _part_id, parent_id AS id, max({NUMBER}) AS value FROM {own} WHERE key = '{key}' GROUP BY 1, 2"
        )
    return session.sql(
        f"SELECT r.group, v.value, sum(r.weight) AS count FROM {rows} r LEFT JOIN ({values}) v "
        "ON v._part_id = r._part_id AND v.id = r.id GROUP BY r.group, v.value"
    ).toArrow()


def _nanos(moment: datetime) -> int:
    return int(moment.timestamp()) * NANOS
