"""The truth beside an estimate: the full data counted on Spark, by what the estimate is told by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.otap.tables import schema
from neve.reservoir.star.decide import default_rows
from neve.reservoir.star.plan import Turn
from neve.reservoir.star.sample import ALIASES
from neve.reservoir.star.source import Source
from neve.reservoir.star.views import open_views, session_for
from neve.reservoir.star.weights import WEIGHTS, attributes_of, number_sql, refusal, weights_view
from neve.reservoir.window import NANOS, Window, nanos_of

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.lake.lake import Lake
    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.star.sample import Asked

DAY = 86_400


def truth_rows(lake: Lake, folder: str, config: ReservoirConfig, asked: Asked) -> pa.Table:
    """How many records there are of each group (and value), as `neve.reservoir.estimate.truth.Truth.of` takes them.

    The signal and what groups are told by are those of `config`; times are cut to whole seconds.
    """
    signal = config.signal
    source = Source.of(lake, folder, signal)
    files = source.looked_into(DAY, {}, lambda _step, _done, _total: None)
    starts = [start for file in files for start, _count in file.windows]
    first = nanos_of(asked.since) // NANOS if asked.since else min(starts, default=0) // NANOS
    last = -(-nanos_of(asked.until) // NANOS) if asked.until else max(starts, default=0) // NANOS + DAY
    turn = Turn(Window(first * NANOS, max(0, last - first)), files, "the whole")
    session = session_for(lake.spark)
    open_views(session, signal, turn, source.parts_of(turn), lake.s3)
    weights_view(session, config).createOrReplaceTempView(WEIGHTS)
    try:
        return session.sql(_counts(config, asked.of)).toArrow()
    except Exception as error:
        raise refusal(error) or error from error


def _counts(config: ReservoirConfig, of: str | None) -> str:
    """Records counted by group and value, as SQL over the views."""
    signal, rows = config.signal, f"({default_rows(config)})"
    if of is None:
        return f"SELECT group, sum(weight) AS count FROM {rows} GROUP BY group"
    column = ALIASES.get(of, of)
    if column in schema(signal).names:
        values = f"SELECT _part_id, id, CAST({column} AS DOUBLE) AS value FROM {signal}"
    else:
        key = of.replace("\\", "\\\\").replace("'", "\\'")
        own = attributes_of(signal)
        said = f"SELECT _part_id, parent_id AS id, {number_sql()} AS value FROM {own} WHERE key = '{key}'"
        values = f"SELECT _part_id, id, max(value) AS value FROM ({said}) GROUP BY _part_id, id"
    return (
        f"SELECT r.group, v.value, sum(r.weight) AS count FROM {rows} r LEFT JOIN ({values}) v "
        "ON v._part_id = r._part_id AND v.id = r.id GROUP BY r.group, v.value"
    )
