"""Rows of the table of series, with the labels that each has in PromQL, and numbers of the series that match."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.promql.storage.otel_names import DELTA, Metric, base_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from neve.promql.labels import Labels

__all__ = [
    "NO_ROWS",
    "MatchedSeries",
    "SeriesRow",
    "add_rows",
    "measure_row",
    "narrow_points",
    "read_metric",
    "read_rows",
]

MAX_IDS = 20  # series, or services, that a statement names
NO_ROWS = pa.table({"series_id": pa.array([], pa.int64())})
_ROW_BYTES, _PAIR_BYTES = 1000, 300  # memory of a series, and of an attribute with its label
_MAX_NANOS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """Raw series: its metric, its attributes and the labels that they become, without the name.

    `late` are values of labels that single series of the metric add. `series_id` is `None` for points of older releases
    and where there is no table of series. Times are those of its first and last point, as far as they are known.
    """

    metric: Metric
    attributes: frozenset[tuple[str, str | None]]
    resource: frozenset[tuple[str, str | None]]
    labels: Labels
    series_id: int | None = None
    service: str | None = None
    late: Sequence[float] | None = None
    has_rows_without_id: bool = False
    first_ns: int = 0
    last_ns: int = _MAX_NANOS

    @property
    def identity(self) -> tuple[Any, ...]:
        """Return what makes the series. Series of several scopes have one identity."""
        return self.metric, self.attributes, self.resource


def read_metric(row: Mapping[str, Any]) -> Metric:
    """Return the metric of a row with the columns of `IDENTITY`."""
    is_delta = row["aggregation_temporality"] == DELTA
    return Metric(row["metric_name"], row["metric_type"] or "", row["unit"] or "", bool(row["is_monotonic"]), is_delta)


def read_rows(table: pa.Table) -> Iterator[list[SeriesRow]]:
    """Yield the rows of a table with `IDENTITY`, `attributes` and `resource_attrs`, in batches."""
    for batch in table.to_batches(max_chunksize=8192):
        yield [_read_row(row) for row in batch.to_pylist()]


def add_rows(older: Sequence[SeriesRow], added: pa.Table, check: Callable[[], None]) -> list[SeriesRow]:
    """Return rows with those of a later table. Of series that are known, only the times are read."""
    if not added.num_rows:
        return list(older)
    places = {row.series_id: place for place, row in enumerate(older) if row.series_id is not None}
    ids = added.column("series_id").to_pylist()
    times = [added.column(name).to_pylist() for name in ("first_ns", "last_ns")]
    found = list(older)
    for series_id, first, last in zip(ids, *times, strict=True):
        if (place := places.get(series_id)) is not None:
            row = found[place]
            found[place] = replace(row, first_ns=min(row.first_ns, first), last_ns=max(row.last_ns, last))
    new = pa.array([series_id not in places for series_id in ids])
    known = {row.identity for row in older if row.series_id is None}
    for rows in read_rows(added.filter(new)):
        check()
        found += [row for row in rows if row.series_id is not None or row.identity not in known]
    return found


def measure_row(row: SeriesRow) -> int:
    """Return the memory of a row, about."""
    return _ROW_BYTES + (len(row.attributes) + len(row.resource)) * _PAIR_BYTES


def _read_row(row: dict[str, Any]) -> SeriesRow:
    attributes, resource = row["attributes"] or (), row["resource_attrs"] or ()
    return SeriesRow(
        read_metric(row),
        frozenset(map(tuple, attributes)),
        frozenset(map(tuple, resource)),
        base_labels(_mapping(attributes), _mapping(resource)),
        row.get("series_id"),
        row.get("service_name"),
        row.get("late"),
        bool(row.get("has_rows_without_id")),
        row.get("first_ns") or 0,
        row.get("last_ns") or _MAX_NANOS,
    )


def _mapping(pairs: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    return {key: value for key, value in dict(pairs).items() if value is not None}


@dataclass
class MatchedSeries:
    """Series that match, each with a number. `ids` are the numbers by id: series of several scopes have one number."""

    owners: list[tuple[Metric, Labels]] = field(default_factory=list)
    ids: dict[int, int] = field(default_factory=dict)
    services: set[str | None] = field(default_factory=set)
    has_rows_without_id: bool = False
    _numbers: dict[Any, int] = field(default_factory=dict)

    def add(self, row: SeriesRow) -> None:
        """Add a row of the table of series."""
        self.has_rows_without_id |= row.has_rows_without_id
        if row.series_id is not None:
            self.ids[row.series_id] = self.number(row)
            self.services.add(row.service)

    def number(self, row: SeriesRow) -> int:
        """Return the number of a row's series, a new one if it is not known."""
        found = self._numbers.setdefault(row.identity, len(self.owners))
        if found == len(self.owners):
            self.owners.append((row.metric, row.labels))
        return found


def narrow_points(rows: Sequence[SeriesRow], series: MatchedSeries) -> tuple[str, list[Any]]:
    """Return a column of points and its values for the series that match, or no values if these are too many.

    Files are sorted by service and series. A long list costs more in planning than it saves in reading.
    """
    if len(series.ids) <= MAX_IDS and len(series.ids) < len(rows):
        return "series_id", sorted(series.ids)
    every = {row.service for row in rows}
    if None not in series.services and len(series.services) <= MAX_IDS and len(series.services) < len(every):
        return "service_name", sorted(one for one in series.services if one is not None)
    return "", []
