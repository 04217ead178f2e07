"""Series of the table `metrics`, by SQL that an injected function runs with the tenancy and limits of its caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from neve.lexical.matchers import Matcher
from neve.promql.labels import Labels, keep, match_sets, set_label
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.storage import target_info
from neve.promql.storage.exemplars import MARGIN_MS, read_exemplars
from neve.promql.storage.exemplars import PARTS as EXEMPLAR_PARTS
from neve.promql.storage.otel_names import DELTA, PARTS, Metric, base_labels, translate_label, translate_name
from neve.promql.storage.points import Column, Points, build_set, expand, list_parts

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.promql.series import SeriesSet
    from neve.promql.storage.exemplars import Exemplar

__all__ = ["MetricSource", "RunSql", "TimeWindow"]

TimeWindow = tuple[datetime | None, datetime | None]  # [since, until)
RunSql = Callable[[str, Sequence[Any], TimeWindow], "pa.Table"]

_IDENTITY = "metric_name, metric_type, unit, is_monotonic, aggregation_temporality"
_CATALOG = f"SELECT DISTINCT {_IDENTITY} FROM metrics"  # noqa: S608  # constants
_DESCRIPTIONS = f"SELECT DISTINCT {_IDENTITY}, description FROM metrics ORDER BY ALL"  # noqa: S608  # constants
_VALUES = {
    "gauge": ("value",),
    "sum": ("value",),
    "histogram": ("explicit_bounds", "bucket_counts", "count", "sum"),
    "exponential_histogram": ("scale", "count", "sum", "zero_count", "zero_threshold", "positive", "negative"),
    "summary": ("quantile_values", "count", "sum"),
}
_INTEGERS = ("time_unix_nano", "start_time_unix_nano", "flags")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_MS = 253_402_300_799_000  # the end of the year 9999
_NANOS = 1_000_000
_LATE = frozenset({"le", "quantile"})  # labels that single series of a metric add
# The values of these labels, by type of metric.
_LATE_VALUES = {"histogram": "explicit_bounds", "summary": "list_transform(quantile_values, x -> x.quantile)"}


@dataclass(frozen=True, slots=True)
class _Choice:
    """Part of a metric that a selector chooses, and the name in the answer."""

    metric: Metric
    part: str
    shown: str


_Choices = dict[Metric, list[_Choice]]


def _window(start_ms: int, end_ms: int) -> TimeWindow | None:
    """Return a closed range of milliseconds as a half-open one of datetimes, or `None` if it is empty."""
    first, last = max(start_ms, 0), min(end_ms, _MAX_MS)
    if first > last:
        return None
    return _EPOCH + timedelta(milliseconds=first), _EPOCH + timedelta(milliseconds=last + 1)


@dataclass
class MetricSource:
    """Source of series for one caller. It reads the list of metrics once for each time range.

    `check` raises the reason to stop, for example a deadline.
    """

    run: RunSql
    check: Callable[[], None] = lambda: None
    _catalogs: dict[TimeWindow, list[Metric]] = field(default_factory=dict)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Return the series that match, with their samples."""
        window = _window(start_ms, end_ms)
        if window is None:
            return build_set([])
        names, labels = split_matchers(matchers)
        columns: list[Column] = []
        for kind, choices in self._choose(names, window).items():
            columns += self._read(kind, choices, labels, window, start_ms)
        if target_info.is_chosen(names, self.check):
            columns += target_info.read_columns(self.run(target_info.SAMPLES, (), window), labels, self.check)
        return build_set([_clip(one, start_ms, end_ms) for one in columns])

    def metrics(self, window: TimeWindow) -> list[Metric]:
        """Return the metrics that have points in a time range."""
        if window not in self._catalogs:
            rows = self.run(_CATALOG, (), window).to_pylist()
            self._catalogs[window] = [_read_metric(row) for row in rows if row["metric_name"]]
        return self._catalogs[window]

    def list_descriptions(self, start_ms: int, end_ms: int) -> Iterator[tuple[Metric, str]]:
        """Yield the metrics that have points from `start_ms` to `end_ms`, with each of their descriptions."""
        window = _window(start_ms, end_ms)
        if window is None:
            return
        for row in self.run(_DESCRIPTIONS, (), window).to_pylist():
            if row["metric_name"]:
                yield _read_metric(row), row["description"] or ""

    def list_series(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Labels]:
        """Yield the label sets that match."""
        window = _window(start_ms, end_ms)
        if window is None:
            return
        names, labels = split_matchers(matchers)
        for kind, choices in self._choose(names, window).items():
            late = _LATE_VALUES.get(kind, "NULL")
            metrics = sorted({metric.name for metric in choices})
            columns = f"{_IDENTITY}, attributes, resource_attrs, {late} AS late"
            sql = (
                f"SELECT DISTINCT {columns} FROM metrics "  # noqa: S608  # parameters
                f"WHERE metric_type = ? AND metric_name IN ({_marks(metrics)})"
            )
            for row, base in self._match(self.run(sql, [kind, *metrics], window), labels):
                for one in choices.get(_read_metric(row), ()):
                    named = set_label(base, METRIC_NAME, one.shown)
                    yield from _match_late(list_parts(kind, one.part, row.get("late"), named), labels, self.check)
        if target_info.is_chosen(names, self.check):
            yield from target_info.list_labels(self.run(target_info.RESOURCES, (), window), labels, self.check)

    def list_exemplars(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> Iterator[tuple[Labels, Exemplar]]:
        """Yield the exemplars of the series that match, each with the labels of its series. Some come twice."""
        window = _window(start_ms, end_ms + MARGIN_MS)
        if window is None:
            return
        names, labels = split_matchers(matchers)
        for kind, choices in self._choose(names, window).items():
            chosen = {
                metric: shown
                for metric, parts in choices.items()
                for shown in [one.shown for one in parts if one.part == EXEMPLAR_PARTS.get(kind)]
            }
            metrics = sorted({metric.name for metric in chosen})
            if not metrics:
                continue
            sql = (
                f"SELECT {_IDENTITY}, attributes, resource_attrs, explicit_bounds, time_unix_nano, exemplars "  # noqa: S608  # parameters
                f"FROM metrics WHERE len(exemplars) > 0 AND metric_type = ? AND metric_name IN ({_marks(metrics)})"
            )
            for row, base in self._match(self.run(sql, [kind, *metrics], window), labels):
                shown = chosen.get(_read_metric(row))
                found = [] if shown is None else list(read_exemplars(row, set_label(base, METRIC_NAME, shown)))
                matched = set(_match_late([series for series, _ in found], labels, self.check))
                for series, one in found:
                    if series in matched and start_ms <= one.time_ms <= end_ms:
                        yield series, one

    def _match(self, table: pa.Table, matchers: Sequence[Matcher]) -> Iterator[tuple[dict[str, Any], Labels]]:
        """Yield the rows that match, with their labels."""
        for batch in table.to_batches(max_chunksize=8192):
            rows = batch.to_pylist()
            self.check()
            for row, base in zip(rows, _match_rows(rows, matchers, self.check), strict=True):
                if base is not None:
                    yield row, base

    def _choose(self, matchers: Sequence[Matcher], window: TimeWindow) -> dict[str, _Choices]:
        """Return the parts of metrics whose name matches, by type. Both spellings of a name are accepted."""
        parts = [
            _Choice(metric, part, name)
            for metric in self.metrics(window)
            for part in PARTS.get(metric.kind, ())
            for name in (translate_name(metric) + part, metric.name + part)
        ]
        chosen = match_sets([((METRIC_NAME, one.shown),) for one in parts], matchers, self.check)
        found: dict[str, _Choices] = {}
        seen: set[tuple[Metric, str]] = set()
        for one, is_match in zip(parts, chosen, strict=True):
            if is_match and (one.metric, one.part) not in seen:
                seen.add((one.metric, one.part))
                found.setdefault(one.metric.kind, {}).setdefault(one.metric, []).append(one)
        return found

    def _read(
        self, kind: str, choices: _Choices, matchers: Sequence[Matcher], window: TimeWindow, since_ms: int
    ) -> Iterator[Column]:
        metrics = sorted({metric.name for metric in choices})
        fields = ", ".join(f"'{name}': {name}" for name in (*_INTEGERS, *_VALUES[kind]))
        sql = (
            f"SELECT {_IDENTITY}, attributes, resource_attrs, list({{{fields}}}) AS points FROM metrics "  # noqa: S608  # parameters
            f"WHERE metric_type = ? AND metric_name IN ({_marks(metrics)}) GROUP BY ALL"
        )
        late = [one for one in matchers if one.name in _LATE]
        known: dict[Labels, bool] = {}
        for row, base, flat in _read_rows(self.run(sql, [kind, *metrics], window), matchers, self.check):
            self.check()
            metric = _read_metric(row)
            points = _read_points(_columns(flat), kind, metric, since_ms)
            for choice in choices.get(metric, ()):
                expanded = list(expand(points, kind, choice.part, set_label(base, METRIC_NAME, choice.shown)))
                keys = [keep(one.labels, _LATE) for one in expanded]
                new = [key for key in dict.fromkeys(keys) if key not in known]
                known.update(zip(new, match_sets(new, late, self.check), strict=True))
                yield from (one for one, key in zip(expanded, keys, strict=True) if known[key])


def _match_rows(
    rows: list[dict[str, Any]], matchers: Sequence[Matcher], check: Callable[[], None]
) -> list[Labels | None]:
    """Return the labels of each row, or `None` if they don't match. Labels of single series are not there yet."""
    found = [base_labels(_mapping(row["attributes"]), _mapping(row["resource_attrs"])) for row in rows]
    matched = match_sets(found, [one for one in matchers if one.name not in _LATE], check)
    return [one if is_match else None for one, is_match in zip(found, matched, strict=True)]


def _match_late(sets: Sequence[Labels], matchers: Sequence[Matcher], check: Callable[[], None]) -> Iterator[Labels]:
    """Yield the label sets whose labels of single series match."""
    late = [one for one in matchers if one.name in _LATE]
    matched = match_sets(sets, late, check) if late else [True] * len(sets)
    yield from (one for one, is_match in zip(sets, matched, strict=True) if is_match)


def _read_rows(
    table: pa.Table, matchers: Sequence[Matcher], check: Callable[[], None]
) -> Iterator[tuple[dict[str, Any], Labels, pa.StructArray]]:
    """Yield the rows that match, with their labels and their points."""
    for batch in table.to_batches(max_chunksize=8192):
        points = batch.column("points")
        low = points.offsets.to_numpy()
        rows = batch.drop_columns(["points"]).to_pylist()
        for index, (row, base) in enumerate(zip(rows, _match_rows(rows, matchers, check), strict=True)):
            if base is not None:
                yield row, base, points.values.slice(low[index], low[index + 1] - low[index])


def _columns(flat: pa.StructArray) -> dict[str, Any]:
    """Return the columns of one row's points in order of time. Python objects of a single row fit into memory."""
    return _sort({field.name: _column(field.name, flat.field(field.name)) for field in flat.type})


def _column(name: str, values: pa.Array) -> Any:
    """Return numbers as an array, where null is 0 or masked among values, and other columns as Python objects."""
    if name in _INTEGERS:
        return values.fill_null(0).to_numpy()
    if name != "value":
        return values.to_pylist()
    mask = np.array(values.is_null().to_numpy(zero_copy_only=False), np.bool_)
    return np.ma.MaskedArray(values.fill_null(0.0).to_numpy(), mask)


def _sort(columns: dict[str, Any]) -> dict[str, Any]:
    times = columns["time_unix_nano"]
    if (np.diff(times) >= 0).all():
        return columns
    order = np.argsort(times, kind="stable")
    return {
        name: values[order] if isinstance(values, np.ndarray) else [values[place] for place in order.tolist()]
        for name, values in columns.items()
    }


def split_matchers(matchers: Sequence[Matcher]) -> tuple[list[Matcher], list[Matcher]]:
    """Return the matchers of the name, and those of labels in Prometheus' spelling."""
    names = [one for one in matchers if one.name == METRIC_NAME]
    others = [one for one in matchers if one.name != METRIC_NAME]
    return names, [Matcher(translate_label(one.name), one.kind, one.value) for one in others]


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" for _ in values)


def _mapping(pairs: Any) -> dict[str, str]:
    return {} if pairs is None else {key: value for key, value in dict(pairs).items() if value is not None}


def _read_metric(row: dict[str, Any]) -> Metric:
    is_delta = row["aggregation_temporality"] == DELTA
    return Metric(row["metric_name"], row["metric_type"] or "", row["unit"] or "", bool(row["is_monotonic"]), is_delta)


def _read_points(columns: dict[str, Any], kind: str, metric: Metric, since_ms: int) -> Points:
    times, starts, flags = (columns[name] for name in _INTEGERS)
    values = {name: columns[name] for name in _VALUES[kind]}
    return Points(times // _NANOS, starts // _NANOS, flags, metric.is_delta, values, since_ms)


def _clip(column: Column, start_ms: int, end_ms: int) -> Column:
    kept = (column.times_ms >= start_ms) & (column.times_ms <= end_ms)
    if kept.all():
        return column
    return Column(column.labels, column.times_ms[kept], column.values[kept], column.starts_ms[kept])
