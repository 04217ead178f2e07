"""Series by SQL: from the table `metric_series`, and from the files of `metrics` that this table has not seen yet.

Without the table, all of it comes from `metrics`. The answers are the same, but for the time between the first and the
last point of a series on a day: the table has no gaps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from neve.promql.storage.otel_names import write_name_pattern
from neve.promql.storage.series_rows import NO_ROWS, SeriesRow, add_rows, measure_row, read_metric, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from neve.promql.storage.otel_names import Metric

__all__ = ["IDENTITY", "KeptValues", "QueryValues", "RunAdded", "RunSql", "SeriesCatalog", "TimeWindow", "make_marks"]

TimeWindow = tuple[datetime | None, datetime | None]  # [since, until)
RunSql = Callable[[str, Sequence[Any], TimeWindow], "pa.Table"]
RunAdded = Callable[[str, Sequence[Any], TimeWindow, Mapping[str, str]], "pa.Table"]

IDENTITY = "metric_name, metric_type, unit, is_monotonic, aggregation_temporality"
MAPS = "attributes, resource_attrs"
# The values of labels that single series of a metric add, in the table of series and in points, by type of metric.
_LATE = {
    "histogram": ("list_distinct(flatten(list(explicit_bounds)))", "explicit_bounds"),
    "summary": ("list_distinct(flatten(list(quantiles)))", "list_transform(quantile_values, x -> x.quantile)"),
}
_ROW = f"{IDENTITY}, service_name, {MAPS}"
_ANY = ", ".join(f"any_value({name}) AS {name}" for name in _ROW.split(", "))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_LONG = timedelta(days=8)
_ROW_BYTES = 1000  # memory of a metric


class KeptValues(Protocol):
    """Values that later queries may use while the tables have the same versions."""

    def get(self, key: Hashable) -> Any:
        """Return a value, or `None`."""

    def get_older(self, key: Hashable) -> tuple[Any, Mapping[str, str]] | None:
        """Return a value of an earlier version, and that version of each table that has grown since, or `None`."""

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Keep a value, if there is room."""


class QueryValues:
    """Values of one query alone."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable) -> Any:
        """Return a value, or `None`."""
        return self._values.get(key)

    def get_older(self, key: Hashable) -> None:
        """Return `None`: a query has one version of the tables."""

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Keep a value."""
        del size_bytes
        self._values[key] = value


def make_marks(values: Sequence[Any]) -> str:
    """Return a mark for each parameter of a list."""
    return ", ".join("?" for _ in values)


@dataclass(frozen=True, slots=True)
class _NamedSeries:
    """All series of the metrics whose name matches, in a time range."""

    pattern: re.Pattern[str]
    window: TimeWindow
    rows: list[SeriesRow]

    def has(self, names: Sequence[str], window: TimeWindow) -> bool:
        """Return whether these are all series of some metrics in a time range."""
        return _contains(self.window, window) and all(map(self.pattern.fullmatch, names))


@dataclass
class SeriesCatalog:
    """Metrics, series and resources of a time range.

    `run_new` runs statements over the table of series, in which `metrics` has only the files that the table has not
    seen. It is `None` if the lake has no such table. Series of whole hours or days are kept, so that panels of a
    dashboard and queries that follow each other read them once. `run_added` runs statements over the files of `metrics`
    that were added since a version, which complete series that were kept before a commit.
    """

    run: RunSql
    run_new: RunSql | None = None
    kept: KeptValues = field(default_factory=QueryValues)
    check: Callable[[], None] = lambda: None
    run_added: RunAdded | None = None
    _named: list[_NamedSeries] = field(default_factory=list)

    def list_metrics(self, window: TimeWindow) -> list[Metric]:
        """Return the metrics that have points in the hours or days of a time range."""
        hours = window if self.run_new is None else _to_units(window)
        key = ("metrics", hours)
        found: list[Metric] | None = self.kept.get(key)
        if found is None:
            older = self._find_older(key)
            if older is None:
                rows = self._read_distinct(IDENTITY, hours)
                found = [read_metric(row) for row in rows.to_pylist() if row["metric_name"]]
            else:
                sql = f"SELECT DISTINCT {IDENTITY} FROM metrics"  # noqa: S608  # constants
                rows = self._read_added(sql, (), hours, older[1])
                new = [read_metric(row) for row in rows.to_pylist() if row["metric_name"]]
                found = list(dict.fromkeys([*older[0], *new]))
            self.kept.put(key, found, len(found) * _ROW_BYTES)
        return found

    def find_metrics(self, name: str, window: TimeWindow) -> list[Metric]:
        """Return the metrics that a name may mean, in the hours or days of a time range, and others.

        Their series are read by the same statement: `read_series` needs none.
        """
        pattern = None if self.run_new is None else write_name_pattern(name)
        hours = _to_units(window)
        if pattern is None or self.kept.get(("metrics", hours)) is not None:
            return self.list_metrics(window)
        key = ("named", name, hours)
        where = "regexp_full_match(metric_name, ?)"
        found: list[SeriesRow] | None = self.kept.get(key)
        if found is None:
            older = self._find_older(key)
            if older is None:
                found = self._make_rows(self._read_series(where, [pattern], hours))
            else:
                found = self._add_series(older[0], where, [pattern], hours, older[1])
            self.kept.put(key, found, sum(map(measure_row, found)))
        self._named.append(_NamedSeries(re.compile(pattern), hours, found))
        return [metric for metric in dict.fromkeys(row.metric for row in found) if metric.name]

    def list_descriptions(self, window: TimeWindow) -> Iterator[tuple[Metric, str]]:
        """Yield the metrics that have points in a time range, with each of their descriptions."""
        rows = self._read_distinct(f"{IDENTITY}, description", window, " ORDER BY ALL").to_pylist()
        yield from ((read_metric(row), row["description"] or "") for row in rows if row["metric_name"])

    def list_resources(self, window: TimeWindow) -> pa.Table:
        """Return the attributes of the resources that have points in the hours or days of a time range."""
        hours = window if self.run_new is None else _to_units(window)
        found: pa.Table | None = self.kept.get(("resources", hours))
        if found is None:
            found = self._read_distinct("resource_attrs", hours)
            self.kept.put(("resources", hours), found, found.nbytes)
        return found

    def read_series(
        self, kind: str, names: Sequence[str], window: TimeWindow, *, is_late: bool = False
    ) -> list[SeriesRow]:
        """Return the series of some metrics, with `is_late` also the values of further labels. Some come twice."""
        where, given = f"metric_type = ? AND metric_name IN ({make_marks(names)})", [kind, *names]
        late = _LATE.get(kind) if is_late else None
        if self.run_new is None:
            return self._make_rows(self._read_series(where, given, window, late))
        hours = _to_units(window)
        key = ("series", kind, tuple(names), hours, is_late)
        found: list[SeriesRow] | None = None if is_late else self._find_named(kind, names, hours)
        if found is None:
            found = self.kept.get(key)
        if found is None:
            older = None if is_late else self._find_older(key)
            if older is None:
                found = self._make_rows(self._read_series(where, given, hours, late))
            else:
                found = self._add_series(older[0], where, given, hours, older[1])
            self.kept.put(key, found, sum(map(measure_row, found)))
        first, last, _ = _to_bounds(window)
        return [row for row in found if row.last_ns >= first and row.first_ns < last]

    def _find_named(self, kind: str, names: Sequence[str], window: TimeWindow) -> list[SeriesRow] | None:
        """Return the series of some metrics that were read with the metrics, if they were."""
        found = next((one.rows for one in self._named if one.has(names, window)), None)
        return None if found is None else [row for row in found if row.metric.kind == kind and row.metric.name in names]

    def _find_older(self, key: Hashable) -> tuple[Any, Mapping[str, str]] | None:
        """Return a value of an earlier version that can be completed."""
        return None if self.run_added is None else self.kept.get_older(key)

    def _read_added(
        self, sql: str, parameters: Sequence[Any], window: TimeWindow, versions: Mapping[str, str]
    ) -> pa.Table:
        """Return the rows of files that were added since some versions. Without a change there are none."""
        if not versions or self.run_added is None:
            return NO_ROWS
        return self.run_added(sql, parameters, window, versions)

    def _add_series(
        self,
        older: Sequence[SeriesRow],
        where: str,
        given: Sequence[Any],
        window: TimeWindow,
        versions: Mapping[str, str],
    ) -> list[SeriesRow]:
        """Return the series of an earlier version, with the new ones and the times of new points."""
        sql = (
            f"SELECT series_id, {_ROW}, NULL AS late, series_id IS NULL AS has_rows_without_id, "  # noqa: S608  # parameters
            "min(time_unix_nano) AS first_ns, max(time_unix_nano) AS last_ns FROM metrics "
            f"WHERE {where} GROUP BY ALL"
        )
        return add_rows(older, self._read_added(sql, given, window, versions), self.check)

    def _make_rows(self, table: pa.Table) -> list[SeriesRow]:
        found: list[SeriesRow] = []
        for rows in read_rows(table):
            self.check()
            found += rows
        return found

    def _read_series(
        self, where: str, given: Sequence[Any], window: TimeWindow, further: tuple[str, str] | None = None
    ) -> pa.Table:
        late, late_points = further or ("NULL", "NULL")
        if self.run_new is None:
            sql = f"SELECT DISTINCT {IDENTITY}, {MAPS}, {late_points} AS late FROM metrics WHERE {where}"  # noqa: S608  # parameters
            return self.run(sql, given, window)
        first, last, days = _to_bounds(window)
        sql = (
            f"SELECT series_id, {_ANY}, {late} AS late, bool_or(has_rows_without_id) AS has_rows_without_id, "  # noqa: S608  # parameters
            "min(first_time_unix_nano) AS first_ns, max(last_time_unix_nano) AS last_ns "
            f"FROM metric_series WHERE {where} AND last_time_unix_nano >= ? AND first_time_unix_nano < ? "
            "GROUP BY series_id "
            f"UNION ALL SELECT series_id, {_ROW}, {late_points} AS late, series_id IS NULL, "
            "min(time_unix_nano), max(time_unix_nano) "
            f"FROM metrics WHERE {where} AND time_unix_nano >= ? AND time_unix_nano < ? GROUP BY ALL"
        )
        return self.run_new(sql, [*given, first, last, *given, first, last], days)

    def _read_distinct(self, columns: str, window: TimeWindow, order: str = "") -> pa.Table:
        """Return the distinct values of some columns in a time range."""
        if self.run_new is None:
            return self.run(f"SELECT DISTINCT {columns} FROM metrics{order}", (), window)  # noqa: S608  # constants
        first, last, days = _to_bounds(window)
        sql = (
            f"SELECT {columns} FROM metric_series WHERE last_time_unix_nano >= ? AND first_time_unix_nano < ? "  # noqa: S608  # constants
            f"UNION SELECT {columns} FROM metrics WHERE time_unix_nano >= ? AND time_unix_nano < ?{order}"
        )
        return self.run_new(sql, [first, last, first, last], days)


def _contains(outer: TimeWindow, inner: TimeWindow) -> bool:
    """Return whether a time range has all of another one."""
    begins = outer[0] is None or (inner[0] is not None and outer[0] <= inner[0])
    return begins and (outer[1] is None or (inner[1] is not None and inner[1] <= outer[1]))


def _to_units(window: TimeWindow) -> TimeWindow:
    """Return a time range in whole hours, or in whole days if it is long."""
    since, until = window
    is_long = since is None or until is None or until - since >= _LONG
    unit = _DAY if is_long else _HOUR
    return (
        None if since is None else _EPOCH + (since - _EPOCH) // unit * unit,
        None if until is None else min(_EPOCH + ((until - _EPOCH) // unit + 1) * unit, _LATEST),
    )


def _to_bounds(window: TimeWindow) -> tuple[int, int, TimeWindow]:
    """Return a time range in nanoseconds, and its whole days: a row of the table of series has the time of its day."""
    since, until = window[0] or _EPOCH, window[1] or _LATEST
    first, last = ((moment - _EPOCH) // timedelta(microseconds=1) * 1000 for moment in (since, until))
    return first, last, (_EPOCH + (since - _EPOCH) // _DAY * _DAY, until)
