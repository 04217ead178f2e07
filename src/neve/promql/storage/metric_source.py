"""Series of the lake's tables, by SQL that an injected function runs with the tenancy and limits of its caller."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from neve.lexical.matchers import Matcher, MatchKind
from neve.promql.labels import Labels, keep, match_sets, set_label
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.series import SeriesSet
from neve.promql.storage import recorded_series, target_info
from neve.promql.storage.exemplars import MARGIN_MS, read_exemplars
from neve.promql.storage.exemplars import PARTS as EXEMPLAR_PARTS
from neve.promql.storage.metric_choice import LATE, Choices, choose_parts, is_rolled, match_late, split_matchers
from neve.promql.storage.point_rows import INTEGERS, NANOS, PLAIN_COLUMNS, VALUES, PointRows, join_rows, read_floats
from neve.promql.storage.points import Column, Points, build_set, expand, list_parts, split_set
from neve.promql.storage.rolled_buckets import read_rolled
from neve.promql.storage.rolled_windows import (
    LOOKBACK_MS,
    RolledLevel,
    RolledSeries,
    WindowReader,
    join_windows,
    make_windows,
)
from neve.promql.storage.sample_blocks import AHEAD_SAMPLES, SampleBlocks, Selection, make_window, measure_set, widen
from neve.promql.storage.series_catalog import (
    IDENTITY,
    KeptValues,
    QueryValues,
    RunAdded,
    RunSql,
    SeriesCatalog,
    TimeWindow,
    make_marks,
)
from neve.promql.storage.series_rows import MatchedSeries, SeriesRow, narrow_points, read_rows
from neve.promql.storage.service_graph import SERVICE_GRAPH
from neve.promql.storage.span_metrics import SPAN_METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from neve.promql.storage.exemplars import Exemplar
    from neve.promql.storage.minute_counters import CountedTable
    from neve.promql.storage.otel_names import Metric

__all__ = ["MetricSource", "RunSql", "TimeWindow"]

_PLAIN = frozenset({"gauge", "sum"})  # types whose points are floats
_ROW_COLUMNS = [*IDENTITY.split(", "), "attributes", "resource_attrs"]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Metrics of one type, the matchers of their labels, and the columns of points to read."""

    kind: str
    names: Sequence[str]
    matchers: Sequence[Matcher]
    columns: Sequence[str]


@dataclass
class MetricSource:
    """Source of series for one caller. It reads the list of metrics once for each time range.

    `check` raises the reason to stop, for example a deadline. `run_new` is that of `SeriesCatalog`. `has_recorded` is
    whether the lake has results of rules, `has_service_edges` whether it has the service map, and `has_spans` whether
    span metrics are counted. `has_start_times` is
    whether samples get start times, which `Options.uses_start_times` needs. `rollups` are those that may be read
    instead of points. `ahead_samples` is that of `SampleBlocks`, `run_added` that of `SeriesCatalog`.
    """

    run: RunSql
    check: Callable[[], None] = lambda: None
    run_new: RunSql | None = None
    has_recorded: bool = False
    has_service_edges: bool = False
    has_start_times: bool = False
    kept: KeptValues = field(default_factory=QueryValues)
    rollups: Sequence[RolledLevel] = ()
    ahead_samples: int = AHEAD_SAMPLES
    has_spans: bool = False
    run_added: RunAdded | None = None

    @cached_property
    def _catalog(self) -> SeriesCatalog:
        return SeriesCatalog(self.run, self.run_new, self.kept, self.check, self.run_added)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Return the series that match, with their samples. Panels with the same selector share them."""
        key = ("samples", tuple(matchers), start_ms, end_ms)
        found: SeriesSet | None = self.kept.get(key)
        if found is None:
            found, is_block = self._select(matchers, start_ms, end_ms)
            if found.histograms is None and not is_block:
                self.kept.put(key, found, measure_set(found))
        return found

    def _select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> tuple[SeriesSet, bool]:
        """Return the series that match, and whether their samples are in a block that is kept already."""
        window = make_window(start_ms, end_ms)
        if window is None:
            return build_set([]), False
        names, labels = split_matchers(matchers)
        columns: list[Column] = []
        whole: list[SeriesSet] = []
        block = widen(start_ms, end_ms) if self.ahead_samples else (start_ms, end_ms)
        for kind, choices in self._choose(names, make_window(*block) or window, needs_series=True).items():
            found = self._read(kind, choices, labels, window, (start_ms, end_ms))
            if isinstance(found, SeriesSet):
                whole.append(found)
            else:
                columns += found
        if target_info.is_chosen(names, self.check):
            columns += target_info.read_columns(self.run(target_info.SAMPLES, (), window), labels, self.check)
        for stored, read in self._list_stored(window):
            columns += stored.read_columns(read, names, labels, self.check)
        if len(whole) == 1 and not columns:
            return whole[0], self.run_new is not None
        columns += [one for some in whole for one in split_set(some)]
        return build_set([one.clip(start_ms, end_ms) for one in columns]), False

    def roll(
        self, kind: str, matchers: Sequence[Matcher], start_ms: int, end_ms: int, window_ms: int
    ) -> RolledSeries | None:
        """Return windows of gauges, counters (sums) or buckets that match, or `None` if only points give the result."""
        level = next((one for one in self.rollups if one.seconds * 1000 == window_ms), None)
        before = max(start_ms - window_ms, 0)  # shows which counters began earlier
        found = None if level is None else self._find_rolled(kind, matchers, before, end_ms + window_ms)
        if level is None or found is None:
            return None
        named, every = found
        until = min(level.find_end(start_ms), end_ms + window_ms)
        if until - start_ms < (end_ms - start_ms) // 2:
            return None
        metrics = sorted({row.metric.name for row, _ in named})
        reader = WindowReader(self.run, kind, metrics, level, self.kept, reads_ahead=self.ahead_samples > 0)
        rows = reader.read([row for row, _ in named], every, before, until)
        found_rows = None if rows is None else read_rolled(kind, rows, [labels for _, labels in named])
        if found_rows is None:
            return None
        windows, labels = found_rows
        parts = [windows]
        if until <= end_ms:
            samples = self.select(matchers, until - LOOKBACK_MS, end_ms)
            rest = make_windows(kind, samples, dict(zip(labels, range(len(labels)), strict=True)), until, window_ms)
            if rest is None:
                return None
            parts.append(rest)
        return join_windows(parts, labels, end_ms, window_ms)

    def _find_rolled(
        self, kind: str, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> tuple[list[tuple[SeriesRow, Labels]], list[SeriesRow]] | None:
        """Return the series that match with their labels, and all series of their metrics.

        It is `None` if some are not of that type, or have no id, or the same labels: only points tell their result.
        """
        window = make_window(start_ms, end_ms)
        names, labels = split_matchers(matchers)
        if self.run_new is None or window is None or target_info.is_chosen(names, self.check):
            return None
        if any(any(one.list_labels(read, names, labels, self.check)) for one, read in self._list_stored(window)):
            return None
        chosen = self._choose(names, window, needs_series=True)
        choices = chosen.get(kind, {})
        if set(chosen) != {kind} or not all(is_rolled(metric, parts) for metric, parts in choices.items()):
            return None
        if kind == "histogram" and any(one.name in LATE for one in labels):
            return None
        every = self._catalog.read_series(kind, sorted({metric.name for metric in choices}), window)
        series = MatchedSeries()
        found: dict[int, tuple[SeriesRow, Labels]] = {}
        for row in self._match(every, labels, kind):
            if row.metric in choices:
                series.add(row)
                found[series.number(row)] = row, set_label(row.labels, METRIC_NAME, choices[row.metric][0].shown)
        named = sorted(found.values(), key=lambda one: one[1])
        is_plain = len({one for _, one in named}) == len(series.ids) == len(named)
        return (named, every) if is_plain and not series.has_rows_without_id else None

    def list_descriptions(self, start_ms: int, end_ms: int) -> Iterator[tuple[Metric, str]]:
        """Yield the metrics that have points from `start_ms` to `end_ms`, with each of their descriptions."""
        if (window := make_window(start_ms, end_ms)) is not None:
            yield from self._catalog.list_descriptions(window)

    def list_series(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Labels]:
        """Yield the label sets that match."""
        window = make_window(start_ms, end_ms)
        if window is None:
            return
        names, labels = split_matchers(matchers)
        for kind, choices in self._choose(names, window).items():
            metrics = sorted({metric.name for metric in choices})
            for row in self._match(self._catalog.read_series(kind, metrics, window, is_late=True), labels):
                for one in choices.get(row.metric, ()):
                    named = set_label(row.labels, METRIC_NAME, one.shown)
                    yield from match_late(list_parts(kind, one.part, row.late, named), labels, self.check)
        if target_info.is_chosen(names, self.check):
            yield from target_info.list_labels(self._catalog.list_resources(window), labels, self.check)
        for stored, read in self._list_stored(window):
            yield from stored.list_labels(read, names, labels, self.check)

    def list_exemplars(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> Iterator[tuple[Labels, Exemplar]]:
        """Yield the exemplars of the series that match, each with the labels of its series. Some come twice."""
        window = make_window(start_ms, end_ms + MARGIN_MS)
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
                f"SELECT {IDENTITY}, attributes, resource_attrs, explicit_bounds, time_unix_nano, exemplars "  # noqa: S608  # parameters
                f"FROM metrics WHERE len(exemplars) > 0 AND metric_type = ? AND metric_name IN ({make_marks(metrics)})"
            )
            for batch in self.run(sql, [kind, *metrics], window).to_batches(max_chunksize=8192):
                for points, row in zip(batch.to_pylist(), self._match_each(batch, labels), strict=True):
                    shown = None if row is None else chosen.get(row.metric)
                    if row is None or shown is None:
                        continue
                    found = list(read_exemplars(points, set_label(row.labels, METRIC_NAME, shown)))
                    matched = set(match_late([series for series, _ in found], labels, self.check))
                    for series, one in found:
                        if series in matched and start_ms <= one.time_ms <= end_ms:
                            yield series, one

    def _list_stored(
        self, window: TimeWindow
    ) -> Iterator[tuple[ModuleType | CountedTable, Callable[[str, Sequence[Any]], pa.Table]]]:
        """Yield the series that other tables have, each with a reader of rows."""
        if self.has_recorded:
            yield recorded_series, self._reader(window)
        if self.has_service_edges:
            yield SERVICE_GRAPH, self._reader(SERVICE_GRAPH.widen(window))
        if self.has_spans:
            yield SPAN_METRICS, self._reader(SPAN_METRICS.widen(window))

    def _reader(self, window: TimeWindow) -> Callable[[str, Sequence[Any]], pa.Table]:
        return lambda sql, parameters: self.run(sql, parameters, window)

    def _match(self, rows: Sequence[SeriesRow], matchers: Sequence[Matcher], kind: str = "") -> Iterator[SeriesRow]:
        """Yield the rows that match. Labels of single series are not there yet, which only other types have."""
        early = [one for one in matchers if kind in _PLAIN or one.name not in LATE]
        self.check()
        matched = match_sets([row.labels for row in rows], early, self.check)
        yield from (row for row, is_match in zip(rows, matched, strict=True) if is_match)

    def _match_each(self, batch: pa.RecordBatch, matchers: Sequence[Matcher], kind: str = "") -> list[SeriesRow | None]:
        """Return the series of each row of a batch, or `None` if it does not match."""
        [rows] = list(read_rows(pa.Table.from_batches([batch.select(_ROW_COLUMNS)]))) or [[]]
        matched = {id(row) for row in self._match(rows, matchers, kind)}
        return [row if id(row) in matched else None for row in rows]

    def _choose(
        self, matchers: Sequence[Matcher], window: TimeWindow, *, needs_series: bool = False
    ) -> dict[str, Choices]:
        """Return the parts of metrics whose name matches, by type. Series of a plain name are read with its metrics."""
        plain = [one.value for one in matchers if one.kind is MatchKind.EQUAL and one.value] if needs_series else []
        metrics = self._catalog.find_metrics(plain[0], window) if plain else self._catalog.list_metrics(window)
        return choose_parts(metrics, matchers, self.check)

    def _read(
        self, kind: str, choices: Choices, matchers: Sequence[Matcher], window: TimeWindow, times_ms: tuple[int, int]
    ) -> SeriesSet | Iterator[Column]:
        """Return the series of a type of metrics: plain floats all at once, others one by one."""
        is_plain = kind in _PLAIN and not self.has_start_times and not any(metric.is_delta for metric in choices)
        if is_plain and self.run_new is not None:
            shown = {metric: parts[0].shown for metric, parts in choices.items()}
            blocks = SampleBlocks(self.run, self._catalog, self.kept, self.check, self.ahead_samples, self.run_added)
            found = blocks.read(Selection(kind, shown, tuple(matchers)), *times_ms)
            if found is not None:
                return found
        names = sorted({metric.name for metric in choices})
        series = MatchedSeries()
        parts: list[PointRows] = []
        columns = PLAIN_COLUMNS if is_plain else (*INTEGERS, *VALUES[kind])
        wanted = _Wanted(kind, names, matchers, columns)
        if self.run_new is not None:
            parts += self._read_by_id(wanted, window, series)
        if self.run_new is None or series.has_rows_without_id:
            parts.append(self._read_by_maps(wanted, window, series))
        if not parts:
            return iter(())
        if is_plain:
            labels = [
                set_label(base, METRIC_NAME, choices[metric][0].shown) if metric in choices else None
                for metric, base in series.owners
            ]
            known = [one for one in labels if one is not None]
            if len(set(known)) == len(known):
                return read_floats(join_rows(parts), labels, *times_ms)
        return self._expand(wanted, choices, series, join_rows(parts), times_ms[0])

    def _expand(
        self, wanted: _Wanted, choices: Choices, series: MatchedSeries, rows: PointRows, since_ms: int
    ) -> Iterator[Column]:
        """Yield the series that the points of each raw series become."""
        kind = wanted.kind
        late = [one for one in wanted.matchers if one.name in LATE]
        known: dict[Labels, bool] = {}
        for (metric, base), columns in zip(series.owners, rows.split(len(series.owners)), strict=True):
            self.check()
            points = _read_points(columns, kind, metric, since_ms)
            for choice in choices.get(metric, ()):
                expanded = list(expand(points, kind, choice.part, set_label(base, METRIC_NAME, choice.shown)))
                keys = [keep(one.labels, LATE) for one in expanded]
                new = [key for key in dict.fromkeys(keys) if key not in known]
                known.update(zip(new, match_sets(new, late, self.check), strict=True))
                yield from (one for one, key in zip(expanded, keys, strict=True) if known[key])

    def _read_by_id(self, wanted: _Wanted, window: TimeWindow, series: MatchedSeries) -> Iterator[PointRows]:
        """Yield the points of the series that match, which `series` gets."""
        every = self._catalog.read_series(wanted.kind, wanted.names, window)
        for row in self._match(every, wanted.matchers, wanted.kind):
            series.add(row)
        if not series.ids:
            return
        ids = sorted(series.ids)
        column, values = narrow_points(every, series)
        some = f" AND {column} IN ({make_marks(values)})" if values else ""
        sql = (
            f"SELECT series_id, {', '.join(wanted.columns)} FROM metrics "  # noqa: S608  # parameters
            f"WHERE metric_type = ? AND metric_name IN ({make_marks(wanted.names)}) AND series_id IS NOT NULL{some}"
        )
        rows = self.run(sql, [wanted.kind, *wanted.names, *values], window)
        owners = np.array([series.ids[one] for one in ids], np.int64)
        yield PointRows.of_ids(rows, np.array(ids, np.int64), owners)

    def _read_by_maps(self, wanted: _Wanted, window: TimeWindow, series: MatchedSeries) -> PointRows:
        """Return the points without an id, or all if there is no table of series."""
        fields = ", ".join(f"'{name}': {name}" for name in wanted.columns)
        sql = (
            f"SELECT {IDENTITY}, attributes, resource_attrs, list({{{fields}}}) AS points FROM metrics "  # noqa: S608  # parameters
            f"WHERE metric_type = ? AND metric_name IN ({make_marks(wanted.names)})"
            f"{'' if self.run_new is None else ' AND series_id IS NULL'} GROUP BY ALL"
        )
        table = self.run(sql, [wanted.kind, *wanted.names], window)
        numbers: list[int | None] = []
        for batch in table.drop_columns(["points"]).to_batches(max_chunksize=8192):
            rows = self._match_each(batch, wanted.matchers, wanted.kind)
            numbers += [None if row is None else series.number(row) for row in rows]
        return PointRows.of_lists(table.column("points").combine_chunks(), numbers)


def _read_points(columns: dict[str, Any], kind: str, metric: Metric, since_ms: int) -> Points:
    times, flags = columns["time_unix_nano"], columns["flags"]
    starts = columns.get("start_time_unix_nano", np.zeros(len(times), np.int64))
    values = {name: columns[name] for name in VALUES[kind]}
    return Points(times // NANOS, starts // NANOS, flags, metric.is_delta, values, since_ms)
