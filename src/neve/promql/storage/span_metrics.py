"""Series of spans under Tempo's names of span metrics, counted from the table `spans` when a query names them.

Calls and latency by service, name, kind and status. They are no part of lists of all metrics, which would read all
spans of the time range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.lexical.matchers import MatchKind
from neve.model.service_calls import WEIGHT
from neve.promql.labels import Labels, make_labels, match_sets
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.storage.minute_counters import (
    HIGHEST,
    LOWEST,
    MINUTE_MS,
    choose_names,
    read_buckets,
    read_sums,
    spread,
)
from neve.promql.storage.service_graph import widen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from neve.lexical.matchers import Matcher
    from neve.promql.storage.points import Column

    ReadRows = Callable[[str, Sequence[Any]], pa.Table]

__all__ = ["NAMES", "PREFIX", "list_labels", "read_columns", "widen"]

PREFIX = "traces_spanmetrics"
_SUMS = {f"{PREFIX}_calls_total": "calls", f"{PREFIX}_latency_sum": "seconds"}
_COUNTS = (f"{PREFIX}_latency_bucket", f"{PREFIX}_latency_count")
NAMES = (*_SUMS, *_COUNTS)
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUSES = ("UNSET", "OK", "ERROR")
_LABELS = "service, span_name, span_kind, status_code"
_MINUTE = f"epoch_ms(timestamp) // {MINUTE_MS} * {MINUTE_MS}"
_SECONDS = "greatest(coalesce(duration_ms, 0), 0) / 1000"
# ruff: noqa: S608 - statements are made of constants


def _write_words(column: str, prefix: str, words: Sequence[str]) -> str:
    cases = " ".join(f"WHEN {number} THEN '{prefix}_{word}'" for number, word in enumerate(words) if number)
    return f"CASE coalesce({column}, 0) {cases} ELSE '{prefix}_{words[0]}' END"


_COLUMNS = (
    "coalesce(service_name, '') AS service, coalesce(operation_name, '') AS span_name, "
    f"{_write_words('span_kind', 'SPAN_KIND', _KINDS)} AS span_kind, "
    f"{_write_words('status_code', 'STATUS_CODE', _STATUSES)} AS status_code"
)
_SPANS = (
    f"SELECT {_COLUMNS}, {_MINUTE} AS minute, {WEIGHT} AS weight, {_SECONDS} AS seconds, "
    f"least(greatest(CAST(ceil(log2(greatest({_SECONDS}, 1e-9))) AS INTEGER), {LOWEST}), {HIGHEST + 1}) AS exponent "
    "FROM spans"
)
_WRITE_SUMS = (
    f"SELECT {_LABELS}, list({{'minute': minute, 'calls': calls, 'seconds': total}} ORDER BY minute) AS points "
    f"FROM (SELECT {_LABELS}, minute, sum(weight) AS calls, sum(weight * seconds) AS total FROM ({_SPANS}) AS counted "
    f"GROUP BY {_LABELS}, minute) AS minutes GROUP BY {_LABELS}"
)
_WRITE_BUCKETS = (
    f"SELECT {_LABELS}, list({{'minute': minute, 'exponent': exponent, 'calls': calls}} ORDER BY minute) AS points "
    f"FROM (SELECT {_LABELS}, minute, exponent, sum(weight) AS calls FROM ({_SPANS}) AS counted "
    f"GROUP BY {_LABELS}, minute, exponent) AS buckets GROUP BY {_LABELS}"
)


def list_labels(
    read: ReadRows, names: Sequence[Matcher], labels: Sequence[Matcher], check: Callable[[], None]
) -> Iterator[Labels]:
    """Yield the label sets that match."""
    chosen = _choose(names, check)
    if not chosen:
        return
    rows = read(f"SELECT DISTINCT {_COLUMNS} FROM spans", ()).to_pylist()
    found = [one for name in chosen for row in rows for one in spread(name, make_labels({**row, METRIC_NAME: name}))]
    matched = match_sets(found, labels, check)
    yield from (one for one, is_match in zip(found, matched, strict=True) if is_match)


def read_columns(
    read: ReadRows, names: Sequence[Matcher], labels: Sequence[Matcher], check: Callable[[], None]
) -> Iterator[Column]:
    """Yield the series that match, with their samples in order of time."""
    chosen = _choose(names, check)
    if not chosen:
        return
    newest = read(f"SELECT max({_MINUTE}) AS newest FROM spans", ()).column(0)[0].as_py()
    if newest is None:
        return
    last = int(newest) + MINUTE_MS
    plain = {name: column for name, column in _SUMS.items() if name in chosen}
    if plain:
        yield from read_sums(read(_WRITE_SUMS, ()), plain, labels, last, check)
    wanted = [name for name in chosen if name in _COUNTS]
    if wanted:
        yield from read_buckets(read(_WRITE_BUCKETS, ()), wanted, labels, last, check)


def _choose(names: Sequence[Matcher], check: Callable[[], None]) -> list[str]:
    """Return the names that match, if the query names them and not only all metrics."""
    is_named = any(
        one.kind is MatchKind.EQUAL or (one.kind is MatchKind.REGEX and PREFIX in one.value) for one in names
    )
    return choose_names(NAMES, names, check) if is_named else []
