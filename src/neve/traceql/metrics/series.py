"""Series of metrics, and the functions over time that make them of spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import LimitExceeded
from neve.traceql.evaluation.vectors import combine_codes
from neve.traceql.language.fields import Static, Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from neve.traceql.evaluation.span_batch import SpanBatch
    from neve.traceql.evaluation.vectors import Vector
    from neve.traceql.language.syntax import MetricsAggregate
    from neve.traceql.metrics.intervals import Intervals

__all__ = ["MAX_SERIES", "Aggregator", "Exemplar", "Labels", "Series"]

Labels = tuple[tuple[str, Static], ...]
MAX_SERIES = 10_000
MAX_CELLS = 5_000_000  # series times intervals
SERIES_EXEMPLARS = 10  # of one series
_COUNTS = frozenset({"rate", "count_over_time", "histogram_over_time"})


@dataclass(frozen=True, slots=True)
class Exemplar:
    """Span that stands for others: its time, its value, and its labels."""

    time_ms: int
    value: float
    labels: Labels


@dataclass(slots=True)
class Series:
    """Values at each interval, NaN where there is none."""

    labels: Labels
    values: NDArray[np.float64]
    exemplars: list[Exemplar] = field(default_factory=list)


@dataclass
class _Group:
    """State of one series."""

    labels: Labels
    state: NDArray[np.float64]
    counts: NDArray[np.float64]
    numbers: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = field(default_factory=list)  # for quantiles
    exemplars: list[Exemplar] = field(default_factory=list)


@dataclass
class Aggregator:
    """Aggregation of spans, batch after batch.

    `max_exemplars` is for all series together, `most_numbers` limits the numbers that quantiles hold.
    """

    node: MetricsAggregate
    intervals: Intervals
    max_exemplars: int = 0
    most_numbers: int = 20_000_000
    _groups: dict[Labels, _Group] = field(default_factory=dict)

    def add(self, spans: SpanBatch, rows: NDArray[np.int64]) -> None:
        """Add chosen spans of a batch."""
        places = self.intervals.find(spans.start[rows])
        rows, places = rows[places >= 0], places[places >= 0]
        numbers = buckets = None
        if self.node.attribute is not None:
            vector = spans.vector(self.node.attribute).take(rows)
            numbers = _read_numbers(vector)
            buckets = _find_buckets(vector) if self.node.operator == "histogram_over_time" else None
            kept = ~np.isnan(numbers if buckets is None else buckets)
            rows, places, numbers = rows[kept], places[kept], numbers[kept]
            buckets = None if buckets is None else buckets[kept]
        if len(rows):
            self._add_groups(spans, rows, places, numbers, buckets)

    def _add_groups(
        self,
        spans: SpanBatch,
        rows: NDArray[np.int64],
        places: NDArray[np.int64],
        numbers: NDArray[np.float64] | None,
        buckets: NDArray[np.float64] | None,
    ) -> None:
        vectors = [spans.vector(one).take(rows) for one in self.node.by]
        parts = [one.codes() for one in vectors]
        if buckets is not None:
            parts.append(buckets.view(np.int64))
        codes = combine_codes(parts) if parts else np.zeros(len(rows), dtype=np.int64)
        order = np.argsort(codes, kind="stable")
        _, first = np.unique(codes[order], return_index=True)
        for members in np.split(order, first[1:]):
            example = int(members[0])
            bucket = None if buckets is None else float(buckets[example])
            group = self._find_group(self._label(vectors, example, bucket))
            self._reduce(group, places[members], None if numbers is None else numbers[members])
            self._add_exemplars(group, spans, rows[members], None if numbers is None else numbers[members])

    def _label(self, vectors: list[Vector], row: int, bucket: float | None) -> Labels:
        """Return the labels of a series. Values that are not there have none, but one label is always there."""
        labels = [(str(one), vector.get(row)) for one, vector in zip(self.node.by, vectors, strict=True)]
        found = [(name, value) for name, value in labels if value.type is not Type.NIL]
        if bucket is not None:
            found.append(("__bucket", Static(Type.FLOAT, bucket)))
        return tuple(found or labels[:1] or [("__name__", Static(Type.STRING, self.node.operator))])

    def _find_group(self, labels: Labels) -> _Group:
        found = self._groups.get(labels)
        if found is None:
            count = self.intervals.count
            if len(self._groups) >= min(MAX_SERIES, MAX_CELLS // count):
                raise LimitExceeded(
                    f"the query makes more than {len(self._groups):,} series of {count:,} steps",
                    limit="series",
                    hint="group by fewer attributes, or choose a longer step",
                )
            found = self._groups[labels] = _Group(labels, np.full(count, np.nan), np.zeros(count))
        return found

    def _reduce(self, group: _Group, places: NDArray[np.int64], numbers: NDArray[np.float64] | None) -> None:
        group.counts += np.bincount(places, minlength=self.intervals.count)
        if numbers is None or self.node.operator in _COUNTS:
            return
        if self.node.operator == "quantile_over_time":
            self.most_numbers -= len(numbers)
            if self.most_numbers < 0:
                raise LimitExceeded("the quantiles need too many values", limit="memory", hint="narrow the time range")
            group.numbers.append((places, numbers))
        elif self.node.operator == "min_over_time":
            np.fmin.at(group.state, places, numbers)
        elif self.node.operator == "max_over_time":
            np.fmax.at(group.state, places, numbers)
        else:
            group.state = np.where(np.isnan(group.state), 0.0, group.state) + np.bincount(
                places, weights=numbers, minlength=self.intervals.count
            )

    def _add_exemplars(
        self, group: _Group, spans: SpanBatch, rows: NDArray[np.int64], numbers: NDArray[np.float64] | None
    ) -> None:
        """Take spans that are spread over the members of a group."""
        free = min(SERIES_EXEMPLARS - len(group.exemplars), self.max_exemplars)
        if free <= 0:
            return
        for place in np.unique(np.linspace(0, len(rows) - 1, num=min(free, len(rows))).astype(np.int64)).tolist():
            row = int(rows[place])
            trace = spans.column("trace_id")[row].as_py() or b""
            span = spans.column("span_id")[row].as_py() or b""
            labels = (("trace:id", Static(Type.STRING, trace.hex())), ("span:id", Static(Type.STRING, span.hex())))
            value = float("nan") if numbers is None else float(numbers[place])
            self.max_exemplars -= 1
            group.exemplars.append(Exemplar(int(spans.start[row]) // 1_000_000, value, (*labels, *group.labels)))

    def result(self) -> list[Series]:
        """Return the series, ordered by their labels."""
        found: list[Series] = []
        groups = list(self._groups.values())
        if not groups and not self.node.by and self.node.attribute is None:
            groups = [self._find_group(self._label([], 0, None))]  # no spans are a count of zero
        for group in groups:
            found += self._finish(group)
        return sorted(found, key=lambda one: str(one.labels))

    def _finish(self, group: _Group) -> list[Series]:
        if self.node.operator == "quantile_over_time":
            return self._finish_quantiles(group)
        values = group.counts if self.node.operator in _COUNTS else np.where(group.counts > 0, group.state, np.nan)
        if self.node.operator == "rate":
            values = values / (self.intervals.step_ns / 1e9)
        elif self.node.operator == "avg_over_time":
            values = np.divide(values, group.counts, out=np.full(len(values), np.nan), where=group.counts > 0)
        return [Series(group.labels, values, [self._complete(one, values) for one in group.exemplars])]

    def _finish_quantiles(self, group: _Group) -> list[Series]:
        """Return exact quantiles, interpolated between the two nearest values."""
        places = np.concatenate([one for one, _ in group.numbers])
        numbers = np.concatenate([one for _, one in group.numbers])
        order = np.argsort(places, kind="stable")
        present, first = np.unique(places[order], return_index=True)
        parts = np.split(numbers[order], first[1:])
        found = []
        for quantile in self.node.quantiles:
            values = np.full(self.intervals.count, np.nan)
            values[present] = [np.quantile(one, quantile) for one in parts]
            labels = (("p", Static(Type.FLOAT, quantile)),)
            named = () if group.labels[0][0] == "__name__" else group.labels
            found.append(Series((*named, *labels), values, list(group.exemplars)))
        return found

    def _complete(self, one: Exemplar, values: NDArray[np.float64]) -> Exemplar:
        """Return an exemplar of a count with the value of its interval."""
        if not np.isnan(one.value):
            return one
        place = int(self.intervals.find(np.array([one.time_ms * 1_000_000]))[0])
        return Exemplar(one.time_ms, float(values[max(place, 0)]), one.labels)


def _read_numbers(vector: Vector) -> NDArray[np.float64]:
    """Return numbers, NaN for other values. Durations are seconds."""
    scale = np.where(vector.types == Type.DURATION, 1e9, 1.0)
    return np.where(vector.is_number, vector.as_floats() / scale, np.nan)


def _find_buckets(vector: Vector) -> NDArray[np.float64]:
    """Return the power of two at or above each number. Those of durations are nanoseconds, given in seconds."""
    floats = vector.as_floats()
    scale = np.where(vector.types == Type.DURATION, 1e9, 1.0)
    with np.errstate(all="ignore"):
        return np.where(vector.is_number & (floats > 0), 2.0 ** np.ceil(np.log2(floats)) / scale, np.nan)
