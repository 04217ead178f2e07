"""Series of spans under Tempo's names of span metrics, counted from the table `spans` when a query names them.

Calls and latency by service, name, kind and status. They are no part of lists of all metrics, which would read all
spans of the time range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lexical.matchers import MatchKind
from neve.model.service_calls import WEIGHT
from neve.promql.storage.minute_counters import HIGHEST, LOWEST, MINUTE_MS, CountedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lexical.matchers import Matcher

__all__ = ["PREFIX", "SPAN_METRICS"]

PREFIX = "traces_spanmetrics"
_SUMS = {f"{PREFIX}_calls_total": "calls", f"{PREFIX}_latency_sum": "seconds"}
_COUNTS = (f"{PREFIX}_latency_bucket", f"{PREFIX}_latency_count")
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


def _is_named(names: Sequence[Matcher]) -> bool:
    """Return whether a query names these metrics, and not only all."""
    return any(one.kind is MatchKind.EQUAL or (one.kind is MatchKind.REGEX and PREFIX in one.value) for one in names)


SPAN_METRICS = CountedTable(
    labels=f"SELECT DISTINCT {_COLUMNS} FROM spans",
    newest=f"SELECT max({_MINUTE}) AS newest FROM spans",
    sums=_SUMS,
    write_sums=lambda _columns: _WRITE_SUMS,
    buckets=dict.fromkeys(_COUNTS, _WRITE_BUCKETS),
    is_named=_is_named,
)
