"""Samples of range aggregations from lines: one for each line that passes the pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed
from neve.lexical.units import UnitError, parse_bytes, parse_float, parse_go_duration
from neve.logql.pipeline.compilation import compile_stages, make_hints, run_stages
from neve.logql.pipeline.entry import ERROR, PRESERVE_ERROR
from neve.logql.pipeline.label_filters import match_labels
from neve.logql.storage.line_groups import Measure
from neve.promql.labels import format_labels, get
from neve.promql.series import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from neve.logql.engine import LogSource, LogWindow
    from neve.logql.language.syntax import Grouping, RangeAggregation, Unwrap
    from neve.logql.pipeline.compilation import RunnableStage
    from neve.logql.pipeline.entry import Entry
    from neve.logql.storage.line_groups import Buckets, LineGroup
    from neve.promql.budget import Budget
    from neve.promql.labels import Labels
    from neve.promql.series import Floats, Integers

__all__ = ["SampleSet", "check_errors", "extract_samples"]

SAMPLE_ERROR = "SampleExtractionErr"
_BYTES = frozenset({"bytes_over_time", "bytes_rate"})
_SUMS = frozenset({*_BYTES, "count_over_time", "rate"})
_CONVERSIONS: dict[str, Callable[[str], float]] = {
    "": parse_float,
    "bytes": lambda text: float(parse_bytes(text)),
    "duration": lambda text: parse_go_duration(text) / 1e9,
    "duration_seconds": lambda text: parse_go_duration(text) / 1e9,
}


@dataclass(frozen=True, slots=True)
class SampleSet:
    """Series with samples in nanoseconds."""

    labels: list[Labels]
    samples: Samples
    has_amounts: bool = False  # of the lines of an interval, and not of single lines


@dataclass(slots=True)
class SeriesBuilder:
    """Samples of all series while lines come in."""

    budget: Budget
    places: dict[Labels, int] = field(default_factory=dict)
    parts: list[tuple[Integers, Integers, Floats]] = field(default_factory=list)

    def add(self, rows: Sequence[tuple[Labels, int, float]]) -> None:
        """Add samples: labels, time and value."""
        owners, times, values = [], [], []
        for labels, time_ns, value in rows:
            owners.append(self._find(labels))
            times.append(time_ns)
            values.append(value)
        self.budget.charge(len(rows))
        self.parts.append((np.array(owners, np.int64), np.array(times, np.int64), np.array(values, np.float64)))

    def add_series(self, labels: Labels, times_ns: Integers, values: Floats) -> None:
        """Add samples of one series."""
        place = self._find(labels)
        self.budget.charge(len(times_ns))
        self.parts.append((np.full(len(times_ns), place, np.int64), times_ns, values))

    def _find(self, labels: Labels) -> int:
        place = self.places.get(labels)
        if place is None:
            place = self.places[labels] = len(self.places)
            self.budget.charge_labels(sum(len(name) + len(text) for name, text in labels))
        return place

    def build(self, *, has_amounts: bool = False) -> SampleSet:
        """Return series in order of their labels, with samples in order of time."""
        owners = np.concatenate([part[0] for part in self.parts] or [np.empty(0, np.int64)])
        times = np.concatenate([part[1] for part in self.parts] or [np.empty(0, np.int64)])
        values = np.concatenate([part[2] for part in self.parts] or [np.empty(0)])
        ordered = sorted(self.places)
        ranks = np.empty(len(ordered), np.int64)
        for rank, labels in enumerate(ordered):
            ranks[self.places[labels]] = rank
        owners = ranks[owners]
        order = np.lexsort((times, owners))
        bounds = np.searchsorted(owners[order], np.arange(len(ordered) + 1)).astype(np.int64)
        return SampleSet(ordered, Samples(bounds, times[order], values[order]), has_amounts)


def find_grouping(node: RangeAggregation, outer: Grouping | None) -> Grouping | None:
    """Return the grouping of the samples: that of a `sum` around the range aggregation, else its own."""
    return outer if outer is not None else node.grouping


@dataclass(frozen=True, slots=True)
class Extraction:
    """Rules that make samples of lines: the function, the labels of the series, and the label of the value."""

    operator: str
    unwrap: Unwrap | None
    names: frozenset[str]
    is_without: bool
    is_single: bool

    @staticmethod
    def make(node: RangeAggregation, grouping: Grouping | None) -> Extraction:
        """Return the rules of a range aggregation."""
        unwrap = node.log_range.unwrap
        is_single = node.operator == "absent_over_time" or (grouping is not None and grouping.is_single)
        names = frozenset(grouping.labels if grouping else ())
        is_without = grouping is not None and grouping.is_without
        if unwrap is not None and (not names or is_without):
            names, is_without = names | {unwrap.name}, True
        return Extraction(node.operator, unwrap, names, is_without, is_single)

    def group(self, entry: Entry) -> Labels:
        """Return the series of a line."""
        return entry.group(self.names, is_without=self.is_without, is_single=self.is_single)

    def add_lines(self, entries: list[Entry], builder: SeriesBuilder) -> None:
        """Add the samples of lines."""
        if self.unwrap is not None:
            found = _unwrap(self.unwrap, entries)
        elif self.operator in _BYTES:
            found = [(one, float(len(one.line.encode(errors="replace")))) for one in entries]
        else:
            found = [(one, 1.0) for one in entries]
        builder.add([(self.group(one), one.time_ns, value) for one, value in found])

    def add_group(self, group: LineGroup, stages: Sequence[RunnableStage], builder: SeriesBuilder) -> None:
        """Add the samples of lines with the same labels."""
        entries = run_stages(stages, [group.entry])
        found = _unwrap(self.unwrap, entries) if self.unwrap is not None else [(one, 1.0) for one in entries]
        for entry, value in found:
            amounts = group.amounts
            values = np.full(len(group.times_ns), value) if amounts is None else amounts.astype(np.float64)
            builder.add_series(self.group(entry), group.times_ns, values)


def extract_samples(
    node: RangeAggregation,
    outer: Grouping | None,
    source: LogSource,
    window: LogWindow,
    budget: Budget,
    buckets: Buckets | None = None,
) -> SampleSet:
    """Return the samples of a range aggregation within a window.

    Lines are counted by intervals, if there are some, and if the aggregation only adds up lines or their bytes.
    """
    query, grouping = node.log_range.query, find_grouping(node, outer)
    hints = make_hints(query.stages, grouping, node.log_range.unwrap)
    rules, builder = Extraction.make(node, grouping), SeriesBuilder(budget)
    stages = compile_stages(query.stages, hints)
    measure = _choose_measure(node, buckets)
    grouped = None if measure is None else source.read_groups(query, hints, window, measure)
    if grouped is not None:
        later = compile_stages(grouped.stages, hints)
        for group in grouped.groups:
            rules.add_group(group, later, builder)
    for batch in source.read(query, window, None) if grouped is None else grouped.rest:
        rules.add_lines(run_stages(stages, batch), builder)
    return builder.build(has_amounts=grouped is not None and measure is not None and measure.buckets is not None)


def _choose_measure(node: RangeAggregation, buckets: Buckets | None) -> Measure | None:
    """Return the values of groups of lines, or `None` if lines must be read one by one."""
    if node.log_range.unwrap is None and node.operator in _SUMS:
        return Measure(buckets, node.operator in _BYTES) if buckets or node.operator not in _BYTES else None
    return Measure()


def _unwrap(unwrap: Unwrap, entries: list[Entry]) -> list[tuple[Entry, float]]:
    """Return the values of a label. Lines without it have no sample, lines with another text an error."""
    convert = _CONVERSIONS[unwrap.conversion]
    found: list[tuple[Entry, float]] = []
    for entry in entries:
        text = entry.get(unwrap.name)
        if not text:
            continue
        try:
            value = convert(text)
        except UnitError as error:
            value = 0.0
            entry.error, entry.details = SAMPLE_ERROR, str(error)
        found.append((entry, value))
    for condition in unwrap.filters:
        passed = match_labels(condition, [entry for entry, _ in found])
        found = [one for one, is_kept in zip(found, passed, strict=True) if is_kept]
    return found


def check_errors(labels: Iterable[Labels]) -> None:
    """Raise `EvaluationFailed` if a series has an error that the query does not name."""
    for one in labels:
        error = get(one, ERROR)
        if error and get(one, PRESERVE_ERROR) != "true":
            raise EvaluationFailed(
                f"pipeline error: '{error}' for series: '{format_labels(one)}'",
                hint=f'skip such lines by a label filter: | __error__!="{error}", or all errors by | __error__=""',
            )
