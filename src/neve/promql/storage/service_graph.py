"""Series of the service map under Tempo's names, made from the table `service_edges`.

Rows of the table count the calls of a minute. A series is their running sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.promql.storage.minute_counters import HIGHEST, LOWEST, CountedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SERVICE_GRAPH"]

_PREFIX = "traces_service_graph_request"
_TOTALS = {f"{_PREFIX}_total": "estimated_calls", f"{_PREFIX}_failed_total": "estimated_errors"}
_SIDES = ("server", "client")
_SUMS = {f"{_PREFIX}_{side}_seconds_sum": f"{side}_seconds" for side in _SIDES}
_STEPS = 32  # buckets of the table between two bounds
_EDGE = "client, server, connection_type"
# ruff: noqa: S608 - statements are made of constants


def _write_sums(columns: Sequence[str]) -> str:
    sums = ", ".join(f"coalesce(sum({name}), 0) AS {name}" for name in columns)
    pairs = ", ".join(f"'{name}': {name}" for name in ("minute", *columns))
    return (
        f"SELECT {_EDGE}, list({{{pairs}}} ORDER BY minute) AS points FROM ("
        f"SELECT {_EDGE}, epoch_ms(timestamp) AS minute, {sums} FROM service_edges GROUP BY {_EDGE}, timestamp"
        f") AS minutes GROUP BY {_EDGE}"
    )


def _write_buckets(side: str) -> str:
    exponent = f"least(greatest(floor(entry.key / {_STEPS}.0) + 1, {LOWEST}), {HIGHEST + 1})"
    return (
        f"SELECT {_EDGE}, list({{'minute': minute, 'exponent': exponent, 'calls': calls}} ORDER BY minute) AS points "
        f"FROM (SELECT {_EDGE}, minute, CAST({exponent} AS INTEGER) AS exponent, sum(entry.value) AS calls "
        f"FROM (SELECT {_EDGE}, epoch_ms(timestamp) AS minute, unnest(map_entries({side}_buckets)) AS entry "
        f"FROM service_edges) AS entries GROUP BY {_EDGE}, minute, exponent) AS buckets GROUP BY {_EDGE}"
    )


SERVICE_GRAPH = CountedTable(
    labels=f"SELECT DISTINCT {_EDGE} FROM service_edges",
    newest="SELECT epoch_ms(max(timestamp)) AS newest FROM service_edges",
    sums=_TOTALS | _SUMS,
    write_sums=_write_sums,
    buckets={
        f"{_PREFIX}_{side}_seconds_{part}": _write_buckets(side) for side in _SIDES for part in ("bucket", "count")
    },
)
