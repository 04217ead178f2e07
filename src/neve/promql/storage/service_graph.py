"""Series of the service map under Tempo's names, made from the table `service_edges`.

Rows of the table count the calls of a minute. A series is their running sum, with a sample at each end of a minute and
a few after it, so that rates and increases are those of the calls. Its level means nothing.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from neve.lexical.literals import format_float
from neve.promql.labels import Labels, make_labels, match_sets, set_label
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.storage.points import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

    from neve.lexical.matchers import Matcher

    ReadRows = Callable[[str, Sequence[Any]], pa.Table]
    TimeWindow = tuple[datetime | None, datetime | None]

__all__ = ["NAMES", "list_labels", "read_columns", "widen"]

_PREFIX = "traces_service_graph_request"
_TOTALS = {f"{_PREFIX}_total": "estimated_calls", f"{_PREFIX}_failed_total": "estimated_errors"}
_SIDES = ("server", "client")
_SUMS = {f"{_PREFIX}_{side}_seconds_sum": f"{side}_seconds" for side in _SIDES}
_COUNTS = {f"{_PREFIX}_{side}_seconds_{part}": side for side in _SIDES for part in ("bucket", "count")}
NAMES = (*_TOTALS, *_SUMS, *_COUNTS)
MINUTE_MS = 60_000
IDLE_MINUTES = 5  # without calls, for which a series goes on: the lookback of instant queries
# Bounds of buckets are powers of two of a second, from about 1 ms to 64 s. The table has 32 buckets between two.
_LOWEST, _HIGHEST, _STEPS = -10, 6, 32
_EDGE = "client, server, connection_type"
_LABELS = ("client", "server", "connection_type")
# ruff: noqa: S608 - statements are made of constants


def widen(window: TimeWindow) -> TimeWindow:
    """Return the time range of the minutes that the samples of a time range come from."""
    since, until = window
    return (None if since is None else since - timedelta(minutes=IDLE_MINUTES + 2)), until


def list_labels(
    read: ReadRows, names: Sequence[Matcher], labels: Sequence[Matcher], check: Callable[[], None]
) -> Iterator[Labels]:
    """Yield the label sets that match."""
    chosen = _choose_names(names, check)
    if not chosen:
        return
    edges = read(f"SELECT DISTINCT {_EDGE} FROM service_edges", ()).to_pylist()
    found = [
        one for name in chosen for edge in edges for one in _spread(name, make_labels({**edge, METRIC_NAME: name}))
    ]
    matched = match_sets(found, labels, check)
    yield from (one for one, is_match in zip(found, matched, strict=True) if is_match)


def read_columns(
    read: ReadRows, names: Sequence[Matcher], labels: Sequence[Matcher], check: Callable[[], None]
) -> Iterator[Column]:
    """Yield the series that match, with their samples in order of time."""
    chosen = _choose_names(names, check)
    if not chosen:
        return
    newest = read("SELECT epoch_ms(max(timestamp)) AS newest FROM service_edges", ()).column(0)[0].as_py()
    if newest is None:
        return
    last = int(newest) + MINUTE_MS
    plain = {name: column for name, column in (_TOTALS | _SUMS).items() if name in chosen}
    if plain:
        yield from _read_sums(read(_write_sums(sorted(set(plain.values()))), ()), plain, labels, last, check)
    for side in _SIDES:
        wanted = [name for name in chosen if _COUNTS.get(name) == side]
        if wanted:
            yield from _read_buckets(read(_write_buckets(side), ()), wanted, labels, last, check)


def _choose_names(names: Sequence[Matcher], check: Callable[[], None]) -> list[str]:
    matched = match_sets([((METRIC_NAME, name),) for name in NAMES], names, check)
    return [name for name, is_match in zip(NAMES, matched, strict=True) if is_match]


def _spread(name: str, labels: Labels) -> list[Labels]:
    """Return the series of a name: one for each bound of a histogram."""
    if not name.endswith("_bucket"):
        return [labels]
    return [set_label(labels, "le", one) for one in _list_bounds()]


def _list_bounds() -> list[str]:
    return [*(format_float(2.0**exponent) for exponent in range(_LOWEST, _HIGHEST + 1)), format_float(math.inf)]


def _write_sums(columns: Sequence[str]) -> str:
    sums = ", ".join(f"coalesce(sum({name}), 0) AS {name}" for name in columns)
    pairs = ", ".join(f"'{name}': {name}" for name in ("minute", *columns))
    return (
        f"SELECT {_EDGE}, list({{{pairs}}} ORDER BY minute) AS points FROM ("
        f"SELECT {_EDGE}, epoch_ms(timestamp) AS minute, {sums} FROM service_edges GROUP BY {_EDGE}, timestamp"
        f") AS minutes GROUP BY {_EDGE}"
    )


def _write_buckets(side: str) -> str:
    exponent = f"least(greatest(floor(entry.key / {_STEPS}.0) + 1, {_LOWEST}), {_HIGHEST + 1})"
    return (
        f"SELECT {_EDGE}, list({{'minute': minute, 'exponent': exponent, 'calls': calls}} ORDER BY minute) AS points "
        f"FROM (SELECT {_EDGE}, minute, CAST({exponent} AS INTEGER) AS exponent, sum(entry.value) AS calls "
        f"FROM (SELECT {_EDGE}, epoch_ms(timestamp) AS minute, unnest(map_entries({side}_buckets)) AS entry "
        f"FROM service_edges) AS entries GROUP BY {_EDGE}, minute, exponent) AS buckets GROUP BY {_EDGE}"
    )


def _match_edges(
    table: pa.Table, names: Sequence[str], matchers: Sequence[Matcher], check: Callable[[], None]
) -> Iterator[tuple[str, Labels, Mapping[str, Any]]]:
    """Yield the names and labels that may match, each with the points of its edge. Bounds are not matched yet."""
    early = [one for one in matchers if one.name != "le"]
    edges = [make_labels(row) for row in table.select(_LABELS).to_pylist()]
    points = table.column("points").combine_chunks()
    low, flat = points.offsets.to_numpy(), points.values
    for index, is_match in enumerate(match_sets(edges, early, check)):
        if is_match:
            check()
            part = flat.slice(low[index], low[index + 1] - low[index])
            values = {one.name: part.field(one.name).to_numpy(zero_copy_only=False) for one in flat.type}
            for name in names:
                yield name, set_label(edges[index], METRIC_NAME, name), values


def _read_sums(
    table: pa.Table, columns: Mapping[str, str], matchers: Sequence[Matcher], last: int, check: Callable[[], None]
) -> Iterator[Column]:
    if any(one.name == "le" and not one.matches("") for one in matchers):
        return
    for name, labels, values in _match_edges(table, list(columns), matchers, check):
        yield _accumulate(labels, values["minute"], values[columns[name]], last)


def _read_buckets(
    table: pa.Table, names: Sequence[str], matchers: Sequence[Matcher], last: int, check: Callable[[], None]
) -> Iterator[Column]:
    for name, labels, values in _match_edges(table, names, matchers, check):
        series = _spread(name, labels)
        bounds = range(_LOWEST, _HIGHEST + 2) if len(series) > 1 else [_HIGHEST + 1]
        matched = match_sets(series, matchers, check)
        for one, bound, is_match in zip(series, bounds, matched, strict=True):
            if is_match:
                is_below = values["exponent"] <= bound
                calls = np.where(is_below, values["calls"], 0.0)
                yield _accumulate(one, values["minute"], calls, last)


def _accumulate(labels: Labels, minutes: Any, deltas: Any, last: int) -> Column:
    """Return the running sum of the calls of minutes, from a level at which no rate is extrapolated to zero."""
    starts, places = np.unique(np.asarray(minutes, np.int64), return_inverse=True)
    growth = np.bincount(places, weights=np.asarray(deltas, np.float64), minlength=len(starts))
    after = np.arange(IDLE_MINUTES + 2, dtype=np.int64) * MINUTE_MS
    times = np.unique((starts[:, None] + after).ravel())
    times = times[times <= last]
    levels = 2 * growth.sum() + np.concatenate(([0.0], np.cumsum(growth)))
    values = levels[np.searchsorted(starts + MINUTE_MS, times, side="right")]
    return Column(labels, times, values, np.zeros(len(times), np.int64))
