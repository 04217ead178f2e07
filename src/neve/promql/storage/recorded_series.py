"""Series of the table `recorded`: results of rules, read beside those of `metrics`.

Names and labels are stored as they are in PromQL. A null value is a stale mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from neve.lexical.matchers import MatchKind
from neve.promql.labels import Labels, make_labels, match_sets
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.series import STALE
from neve.promql.storage.points import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from neve.lexical.matchers import Matcher

    ReadRows = Callable[[str, Sequence[Any]], pa.Table]

__all__ = ["list_labels", "read_columns"]

_NAMES = "SELECT DISTINCT metric_name FROM recorded WHERE metric_name IS NOT NULL"
_SERIES = "SELECT DISTINCT metric_name, labels FROM recorded WHERE metric_name IN"
_SAMPLES = (
    "SELECT metric_name, labels, list({'timestamp': timestamp, 'value': value}) AS points FROM recorded "
    "WHERE metric_name IN"
)


def read_columns(
    read: ReadRows, names: Sequence[Matcher], labels: Sequence[Matcher], check: Callable[[], None]
) -> Iterator[Column]:
    """Yield the series that match, with their samples in order of time."""
    chosen = _choose_names(read, names, check)
    if not chosen:
        return
    table = read(f"{_SAMPLES} ({', '.join('?' for _ in chosen)}) GROUP BY ALL", chosen)
    for batch in table.to_batches(max_chunksize=8192):
        points = batch.column("points")
        low = points.offsets.to_numpy()
        for index, found in enumerate(_match(batch, labels, check)):
            if found is not None:
                check()
                yield _read_column(found, points.values.slice(low[index], low[index + 1] - low[index]))


def list_labels(
    read: ReadRows, names: Sequence[Matcher], labels: Sequence[Matcher], check: Callable[[], None]
) -> Iterator[Labels]:
    """Yield the label sets that match."""
    chosen = _choose_names(read, names, check)
    if not chosen:
        return
    table = read(f"{_SERIES} ({', '.join('?' for _ in chosen)})", chosen)
    for batch in table.to_batches(max_chunksize=8192):
        yield from (found for found in _match(batch, labels, check) if found is not None)


def _choose_names(read: ReadRows, names: Sequence[Matcher], check: Callable[[], None]) -> list[str]:
    """Return the names of recorded series that match. A selector with a plain name needs no list of them."""
    plain = [one.value for one in names if one.kind is MatchKind.EQUAL and one.value]
    known = plain[:1] or read(_NAMES, ()).column(0).to_pylist()
    matched = match_sets([((METRIC_NAME, name),) for name in known], names, check)
    return sorted(name for name, is_match in zip(known, matched, strict=True) if is_match)


def _match(batch: pa.RecordBatch, matchers: Sequence[Matcher], check: Callable[[], None]) -> list[Labels | None]:
    rows = zip(batch.column("metric_name").to_pylist(), batch.column("labels").to_pylist(), strict=True)
    found = [make_labels({**dict(pairs or ()), METRIC_NAME: name}) for name, pairs in rows]
    matched = match_sets(found, matchers, check)
    return [one if is_match else None for one, is_match in zip(found, matched, strict=True)]


def _read_column(labels: Labels, flat: pa.StructArray) -> Column:
    times = flat.field("timestamp").cast("int64").to_numpy() // 1000
    values = flat.field("value")
    numbers = np.where(values.is_null().to_numpy(zero_copy_only=False), STALE, values.fill_null(0.0).to_numpy())
    order = np.argsort(times, kind="stable")
    return Column(labels, times[order], numbers[order], np.zeros(len(times), np.int64))
