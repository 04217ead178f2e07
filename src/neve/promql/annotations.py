"""Warnings and infos of an evaluation, in Prometheus' words. Each text ends with the line and column of its cause."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime

from neve.lexical.literals import format_general, quote
from neve.lexical.positions import Span, format_position

__all__ = ["Annotations"]

_INFO = "PromQL info: "
_WARNING = "PromQL warning: "
_FIXED = (
    "input to histogram_quantile needed to be fixed for monotonicity "
    "(see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)"
)


@dataclass(slots=True)
class _Repair:
    """Extent of the repairs of classic histograms whose buckets shrink."""

    span: Span
    first_ms: int
    last_ms: int
    lowest: float
    highest: float
    difference: float
    count: int = 1


@dataclass(slots=True)
class Annotations:
    """Collected annotations. The same text is kept once, with its first place."""

    _places: dict[str, Span] = field(default_factory=dict)
    _repairs: dict[str, _Repair] = field(default_factory=dict)
    _overlaps: dict[str, tuple[Span, int]] = field(default_factory=dict)

    def warn(self, message: str, span: Span) -> None:
        """Add a warning."""
        self._places.setdefault(_WARNING + message, span)

    def inform(self, message: str, span: Span) -> None:
        """Add an info."""
        self._places.setdefault(_INFO + message, span)

    def format(self, text: str) -> tuple[list[str], list[str]]:
        """Return the warnings and the infos of the expression `text`."""
        lines = [f"{message} ({format_position(text, span.start)})" for message, span in self._places.items()]
        lines += [self._format_repair(message, repair, text) for message, repair in self._repairs.items()]
        for name, (span, count) in self._overlaps.items():
            times = f" ({count} occurrences)" if count > 1 else ""
            message = f"{_WARNING}sample has start time that overlaps with previous sample timestamp for metric"
            lines.append(f"{message} {quote(name)}{times} ({format_position(text, span.start)})")
        return [one for one in lines if one.startswith(_WARNING)], [one for one in lines if one.startswith(_INFO)]

    def _format_repair(self, message: str, repair: _Repair, text: str) -> str:
        first, last = (_format_time(one) for one in (repair.first_ms, repair.last_ms))
        bounds = f"from buckets {format_general(repair.lowest)} to {format_general(repair.highest)}"
        return (
            f"{message}, {bounds}, with a max diff of {_two_digits(repair.difference)}, over {repair.count} samples "
            f"from {first} to {last} ({format_position(text, repair.span.start)})"
        )

    def add_overlap(self, metric: str, count: int, span: Span) -> None:
        """Count windows in which a sample's start time lies before the previous sample."""
        known, before = self._overlaps.get(metric, (span, 0))
        self._overlaps[metric] = known, before + count

    def add_repair(
        self, metric: str, times_ms: list[int], bounds: tuple[float, float], difference: float, span: Span
    ) -> None:
        """Report that buckets of a classic histogram shrank at these times, between these bounds."""
        message = _INFO + _FIXED + _for_metric(metric)
        known = self._repairs.get(message)
        if known is None:
            self._repairs[message] = _Repair(span, min(times_ms), max(times_ms), *bounds, difference, len(times_ms))
            return
        known.first_ms, known.last_ms = min(known.first_ms, *times_ms), max(known.last_ms, *times_ms)
        known.lowest, known.highest = min(known.lowest, bounds[0]), max(known.highest, bounds[1])
        known.difference = max(known.difference, difference)
        known.count += len(times_ms)

    def invalid_quantile(self, quantile: float, span: Span) -> None:
        """Warn about a quantile outside of 0 to 1."""
        self.warn(f"quantile value should be between 0 and 1, got {format_general(quantile)}", span)

    def invalid_ratio(self, ratio: float, capped: float, span: Span) -> None:
        """Warn about a ratio outside of -1 to 1."""
        got = f"got {format_general(ratio)}, capping to {format_general(capped)}"
        self.warn(f"ratio value should be between -1 and 1, {got}", span)

    def bad_bucket(self, metric: str, bound: str, span: Span) -> None:
        """Warn about a bucket whose `le` is not a number."""
        message = f'bucket label "le" is missing or has a malformed value of {quote(bound)}'
        self.warn(message + _for_metric(metric), span)

    def mixed_samples(self, metric: str | None, span: Span) -> None:
        """Warn about floats beside histograms, in the range of a metric or in an aggregation."""
        where = "aggregation" if metric is None else f"metric name {quote(metric)}"
        self.warn(f"encountered a mix of histograms and floats for {where}", span)

    def mixed_kinds(self, metric: str, span: Span) -> None:
        """Warn about classic buckets beside a native histogram."""
        self.warn("vector contains a mix of classic and native histograms" + _for_metric(metric), span)

    def mixed_schemas(self, metric: str, span: Span) -> None:
        """Warn about exponential beside custom buckets."""
        message = "vector contains a mix of histograms with exponential and custom buckets schemas for metric name"
        self.warn(f"{message} {quote(metric)}", span)

    def not_counter(self, metric: str, span: Span) -> None:
        """Warn about a gauge histogram in a function for counters."""
        self.warn(f"this native histogram metric is not a counter: {quote(metric)}", span)

    def not_gauge(self, metric: str, span: Span) -> None:
        """Warn about a counter histogram in a function for gauges."""
        self.warn(f"this native histogram metric is not a gauge: {quote(metric)}", span)

    def reset_collision(self, operation: str, span: Span) -> None:
        """Warn about histograms with contradicting hints on counter resets."""
        self.warn(f"conflicting counter resets during histogram {operation}", span)

    def reconciled_buckets(self, operation: str, span: Span) -> None:
        """Inform that custom buckets differed and were reduced to their common bounds."""
        self.inform(f"mismatched custom buckets were reconciled during {operation}", span)

    def ignored_in_aggregation(self, aggregation: str, span: Span) -> None:
        """Inform that an aggregation ignored a histogram."""
        self.inform(f"ignored histogram in {aggregation} aggregation", span)

    def ignored_in_range(self, metric: str, span: Span) -> None:
        """Inform that a function ignored the histograms beside floats."""
        message = "ignored histograms in a range containing both floats and histograms for metric name"
        self.inform(f"{message} {quote(metric)}", span)

    def maybe_not_counter(self, metric: str, span: Span) -> None:
        """Inform that the name of a metric is not that of a counter."""
        message = "metric might not be a counter, name does not end in _total/_sum/_count/_bucket:"
        self.inform(f"{message} {quote(metric)}", span)

    def incompatible_types(self, operator: str, left: str, right: str, span: Span) -> None:
        """Inform that an operator has no result for a pair of samples."""
        message = "incompatible sample types encountered for binary operator"
        self.inform(f"{message} {quote(operator)}: {left} {operator} {right}", span)

    def incompatible_buckets(self, operator: str, span: Span) -> None:
        """Warn about two histograms that can't be combined."""
        self.warn(f"incompatible bucket layout encountered for binary operator {operator}", span)

    def rolled_up(self, window: str, span: Span) -> None:
        """Inform that a function was computed from windows of the storage instead of its points."""
        self.inform(f"computed from rollups with windows of {window}, up to rounding as from the points", span)

    def rolled_growth(self, window: str, error: float, span: Span) -> None:
        """Inform that the growth of counters was computed from windows, and by how much it may differ."""
        bound = f"{_format_bound(error)} from the points" if error else "up to rounding as from the points"
        self.inform(
            f"computed from rollups with windows of {window}, {bound}; "
            "growth over pauses of more than 5m inside a window is not counted",
            span,
        )

    def rolled_quantile(self, window: str, error: float, span: Span) -> None:
        """Inform that quantiles of buckets were computed from windows, and by how much they may differ."""
        self.inform(
            f"computed from rollups with windows of {window}, {_format_bound(error)} from the points; "
            "growth over pauses of more than 5m inside a window is not counted, and a reset counts for all buckets",
            span,
        )

    def nan_observations(self, result: str, metric: str, span: Span) -> None:
        """Inform about the effect of NaN observations on a quantile or fraction."""
        self.inform(result + _for_metric(metric), span)


def _for_metric(metric: str) -> str:
    return f" for metric name {quote(metric)}" if metric else ""


def _format_time(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError):
        return f"{milliseconds // 1000}"


def _two_digits(value: float) -> str:
    return f"{value:.2g}"


def _format_bound(error: float) -> str:
    return f"at most {math.ceil(error * 10_000) / 100:g}%"
