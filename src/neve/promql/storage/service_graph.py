"""Series of the service map under Tempo's names, made from the table `service_edges`.

Rows of the table count the calls of a minute. A series is their running sum.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from neve.promql.labels import Labels, make_labels, match_sets
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.storage.minute_counters import (
    HIGHEST,
    IDLE_MINUTES,
    LOWEST,
    MINUTE_MS,
    choose_names,
    read_buckets,
    read_sums,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    import pyarrow as pa

    from neve.lexical.matchers import Matcher
    from neve.promql.storage.points import Column

    ReadRows = Callable[[str, Sequence[Any]], pa.Table]
    TimeWindow = tuple[datetime | None, datetime | None]

__all__ = ["NAMES", "list_labels", "read_columns", "widen"]

_PREFIX = "traces_service_graph_request"
_TOTALS = {f"{_PREFIX}_total": "estimated_calls", f"{_PREFIX}_failed_total": "estimated_errors"}
_SIDES = ("server", "client")
_SUMS = {f"{_PREFIX}_{side}_seconds_sum": f"{side}_seconds" for side in _SIDES}
_COUNTS = {f"{_PREFIX}_{side}_seconds_{part}": side for side in _SIDES for part in ("bucket", "count")}
NAMES = (*_TOTALS, *_SUMS, *_COUNTS)
_STEPS = 32  # buckets of the table between two bounds
_EDGE = "client, server, connection_type"
# ruff: noqa: S608 - statements are made of constants


def widen(window: TimeWindow) -> TimeWindow:
    """Return the time range of the minutes that the samples of a time range come from."""
    since, until = window
    return (None if since is None else since - timedelta(minutes=IDLE_MINUTES + 2)), until


def list_labels(
    read: ReadRows, names: Sequence[Matcher], labels: Sequence[Matcher], check: Callable[[], None]
) -> Iterator[Labels]:
    """Yield the label sets that match."""
    chosen = choose_names(NAMES, names, check)
    if not chosen:
        return
    edges = read(f"SELECT DISTINCT {_EDGE} FROM service_edges", ()).to_pylist()
    found = [one for name in chosen for edge in edges for one in spread(name, make_labels({**edge, METRIC_NAME: name}))]
    matched = match_sets(found, labels, check)
    yield from (one for one, is_match in zip(found, matched, strict=True) if is_match)


def read_columns(
    read: ReadRows, names: Sequence[Matcher], labels: Sequence[Matcher], check: Callable[[], None]
) -> Iterator[Column]:
    """Yield the series that match, with their samples in order of time."""
    chosen = choose_names(NAMES, names, check)
    if not chosen:
        return
    newest = read("SELECT epoch_ms(max(timestamp)) AS newest FROM service_edges", ()).column(0)[0].as_py()
    if newest is None:
        return
    last = int(newest) + MINUTE_MS
    plain = {name: column for name, column in (_TOTALS | _SUMS).items() if name in chosen}
    if plain:
        yield from read_sums(read(_write_sums(sorted(set(plain.values()))), ()), plain, labels, last, check)
    for side in _SIDES:
        wanted = [name for name in chosen if _COUNTS.get(name) == side]
        if wanted:
            yield from read_buckets(read(_write_buckets(side), ()), wanted, labels, last, check)


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
